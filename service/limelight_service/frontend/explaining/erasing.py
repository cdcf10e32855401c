"""Erasure: the rows of an instance without some of its units."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.preprocess.wav import read_wav
from limelight_bundle.rows import Row
from limelight_bundle.values import Array, Audio, Instance
from limelight_service.frontend.explaining.units import Indices, Members
from limelight_service.frontend.schema import ModelSchema


@dataclass(frozen=True)
class Changed:
    """A row that is changed. kept: by label set, the place of each entry in the row, -1 for one that is gone; without
    the sets whose entries all stay.
    """

    row: Row
    kept: Mapping[str, Indices]


class Eraser:
    """Erases units of one instance. For any thread.

    field: path of the instance. row: of the whole instance, with a forced target where there is one.
    """

    def __init__(self, schema: ModelSchema, instance: Instance, row: Row, field: Path) -> None:
        self._schema = schema
        self._instance = instance
        self._row = row
        self._field = field
        self._sets = {each.name: each for each in (*schema.prompts, *schema.description.label_sets)}
        self._inputs = {each.name: each for each in schema.description.inputs}
        self._masks = schema.masks

    def erased(self, entries: Members) -> Changed:
        """Erase entries. Raises: InputError where nothing would be left."""
        changed, done = Changed(self._row, {}), set[str]()
        for name, own in entries.items():
            described = self._sets[name]
            if not len(own) or described.kind not in _WAYS or (key := described.tensor or described.input) in done:
                continue
            done.add(key)
            changed = _WAYS[described.kind](self, changed, described, own)
        return changed

    def _tokens(self, changed: Changed, described: model_pb2.LabelSetDescription, own: Indices) -> Changed:
        """Put the token that stands for any word in the place of some, or take them out."""
        row, name = changed.row, described.tensor
        ids, blank = row.tensors[name], self._schema.preprocessor.blanks.get(name)
        real = row.tensors[self._masks[name]] if name in self._masks else np.ones(ids.shape, bool)
        if ids.ndim == 1:
            real = np.ones(ids.shape, bool)
        places = tuple(axis[own] for axis in real.nonzero())
        if blank is not None:
            array = ids.copy()
            array[places] = blank
            return replace(changed, row=replace(row, tensors={**row.tensors, name: array}))
        left = real.copy()
        left[places] = False
        if not left.any():
            raise InputError(
                (*self._field, "inputs", described.input), "would be empty without a unit: erase smaller ones"
            )
        kept = np.where(left[real], np.cumsum(left[real]) - 1, -1)
        together = dict(changed.kept) | {
            each.name: kept
            for each in self._sets.values()
            if each.tensor == name and each.kind == described.kind and each.dimension == described.dimension
        }
        if ids.ndim == 1:
            return Changed(self._without(row, described, np.flatnonzero(left)), together)
        parent = row.labels[described.name].parent
        if parent:
            of_parent = left.any(1)
            together[parent] = np.where(of_parent, np.cumsum(of_parent) - 1, -1)
        return Changed(self._without_words(row, described, left), together)

    def _without(self, row: Row, described: model_pb2.LabelSetDescription, kept: Indices) -> Row:
        """Keep some entries of every tensor of an input along one axis."""
        tensors = dict(row.tensors)
        for each in self._inputs[described.input].tensors:
            for name in (each.name, self._masks.get(each.name, "")):
                if name in tensors:
                    for axis, dimension in enumerate(each.dimensions):
                        if dimension.name == described.dimension:
                            tensors[name] = np.take(tensors[name], kept, axis)
        return replace(row, tensors=tensors, sizes={**row.sizes, described.dimension: len(kept)})

    def _without_words(self, row: Row, described: model_pb2.LabelSetDescription, left: Array) -> Row:
        """Keep some words [sentence, word] of a document, and the sentences that have any."""
        name = described.tensor
        tensor = next(each for each in self._inputs[described.input].tensors if each.name == name)
        lengths = left.sum(1)
        kept = np.flatnonzero(lengths)
        ids = np.full((len(kept), lengths.max()), tensor.fill, row.tensors[name].dtype)
        real = np.arange(ids.shape[1]) < lengths[kept, np.newaxis]
        ids[real] = row.tensors[name][left]
        sizes = dict(zip((each.name for each in tensor.dimensions), ids.shape, strict=True))
        masks = {self._masks[name]: real} if name in self._masks else {}
        return replace(row, tensors={**row.tensors, name: ids, **masks}, sizes={**row.sizes, **sizes})

    def _cells(self, changed: Changed, described: model_pb2.LabelSetDescription, own: Indices) -> Changed:
        """Paint cells in the mean colour of the picture [channel, row, column]."""
        labels, tensors = changed.row.labels[described.name], dict(changed.row.tensors)
        assert labels.grid is not None
        for each in self._inputs[described.input].tensors:
            names = [one.name for one in each.dimensions]
            if described.tensor not in ("", each.name) or len(names) < 2:
                continue
            array = tensors[each.name].copy()
            if described.dimension in names:  # of cells, not of pixels
                axis = names.index(described.dimension)
                np.moveaxis(array, axis, 0)[own] = array.mean(axis)
                tensors[each.name] = array
                continue
            mean = array.mean((-2, -1), dtype=np.float64).astype(array.dtype)
            places = own - len(labels.grid.leading)
            edges = [
                np.rint(np.arange(count + 1) * size / count).astype(int)
                for count, size in zip((labels.grid.rows, labels.grid.columns), array.shape[-2:], strict=True)
            ]
            for row, column in zip(*np.divmod(places, labels.grid.columns), strict=True):
                inside = (..., slice(*edges[0][row : row + 2]), slice(*edges[1][column : column + 2]))
                array[inside] = mean[..., np.newaxis, np.newaxis]
            tensors[each.name] = array
        return replace(changed, row=replace(changed.row, tensors=tensors))

    def _nodes(self, changed: Changed, described: model_pb2.LabelSetDescription, own: Indices) -> Changed:
        """Set the features of nodes to 0."""
        tensors = dict(changed.row.tensors)
        array = tensors[described.tensor].copy()
        array[own] = 0
        return replace(changed, row=replace(changed.row, tensors={**tensors, described.tensor: array}))

    def _frames(self, changed: Changed, described: model_pb2.LabelSetDescription, own: Indices) -> Changed:
        """Silence frames of a recording; of a spectrogram that was sent, they get its lowest value."""
        labels, value = changed.row.labels[described.name], self._instance.get(described.input)
        tensors = dict(changed.row.tensors)
        if isinstance(value, Audio):
            rate, content = value.sample_rate, value.content
            if isinstance(content, bytes):
                file = read_wav(content, self._field)
                rate, content = file.sample_rate, file.samples(file.count)
            samples = np.array(content)
            for place in own.tolist():
                samples[labels.starts[place] * rate // 1000 : labels.ends[place] * rate // 1000] = 0
            silenced = self._schema.preprocessor.row(
                {**self._instance, described.input: Audio(samples, rate)}, field=self._field, truncate=True
            )
            names = [each.name for each in self._inputs[described.input].tensors]
            tensors |= {name: silenced.tensors[name] for name in names}
        else:
            for each in self._inputs[described.input].tensors:
                array = tensors[each.name].copy()
                frames = np.repeat(np.isin(np.arange(labels.size), own), -(-array.shape[-1] // labels.size))
                array[..., frames[: array.shape[-1]]] = array.min()
                tensors[each.name] = array
        return replace(changed, row=replace(changed.row, tensors=tensors))


_WAYS = {
    attention_pb2.LABEL_KIND_TOKENS: Eraser._tokens,
    attention_pb2.LABEL_KIND_GRID: Eraser._cells,
    attention_pb2.LABEL_KIND_NODES: Eraser._nodes,
    attention_pb2.LABEL_KIND_FRAMES: Eraser._frames,
}
