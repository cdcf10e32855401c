"""An ONNX file as it is, as the reference of the graph that a bundle holds."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.generation import GenerationRunner
from limelight_export.execution.limits import Result, within_limits
from limelight_export.execution.onnx_runner import GraphSession
from limelight_export.exported_graph import ExportedGraph
from limelight_export.importing.describe import ImportedCard
from limelight_export.importing.inputs import ModelInput
from limelight_export.importing.maps import MapSource
from limelight_export.importing.onnx_file.file import OnnxFile
from limelight_export.interface import TensorSpec

_CANONICAL = ("batch", "head", "query", "key")


class FileSession:
    """An ONNX file in a session, which also returns some of its inner values; it is loaded and run within limits.

    Raises:
        ExportError: ONNX Runtime cannot load the file.
    """

    def __init__(self, file: OnnxFile, inner: Collection[str] = ()) -> None:
        self.file = file
        model = onnx.ModelProto()
        model.CopyFrom(file.own)
        exposed = [name for name in inner if name not in file.outputs]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in exposed)
        inputs = tuple(TensorSpec(each.name, each.dtype, each.axes) for each in file.inputs.values())
        outputs = tuple(TensorSpec(name, np.dtype(np.float32), ()) for name in (*file.outputs, *exposed))
        name = Path(file.path).name
        graph = ExportedGraph(name, "model.onnx", model, inputs, outputs)
        self._weights = sum(each.ByteSize() for each in model.graph.initializer)
        self._session = self._within_limits(lambda: GraphSession(graph), f"loading {name}", lambda: None)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return every output and exposed value. Raises ExportError where ONNX Runtime fails on the inputs."""
        shapes = {name: list(array.shape) for name, array in inputs.items()}
        what = f"{self.file.path.name}, run on inputs of the shapes {shapes},"
        return self._within_limits(lambda: self._session.run(inputs), what, self._session.stop)

    def _within_limits(self, work: Callable[[], Result], what: str, stop: Callable[[], None]) -> Result:
        try:
            return within_limits(work, what, self._weights, stop)
        except ExportError as error:
            raise ExportError(" ".join(error.message.split())) from error


class FileReference:
    """A file that answers a card's tensors (see `limelight_export.execution.reference.Reference`)."""

    def __init__(self, session: FileSession, card: ImportedCard) -> None:
        self._session, self._card = session, card

    @property
    def name(self) -> str:
        """The file's name."""
        return self._session.file.path.name

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Answer a batch in one pass."""
        file = self._session.file
        found = self._session.run(
            {name: file_input(each, tensors[name], own_dtype(file, name)) for name, each in self._card.inputs.items()}
        )
        return {
            **{name: as_float32(found[name]) for name in self._card.outputs},
            **{name: as_map(found[each.output], each) for name, each in self._card.maps.items()},
        }

    def generation_runner(self) -> GenerationRunner:
        """Raise: a file alone answers in one pass."""
        raise ExportError(f"{self.name} does not generate")


def own_dtype(file: OnnxFile, name: str) -> "np.dtype[Any]":
    """Return the type of a file's input."""
    return file.inputs[name].dtype


def file_input(stated: ModelInput, array: Array, dtype: "np.dtype[Any]") -> Array:
    """Return a card's tensor as a file takes it, in the file's own type."""
    for axis in stated.dropped:
        array = array.take(0, axis)
    array = ~array if stated.inverted else array
    array = np.transpose(array, (0, 2, 3, 1)) if stated.channels_last else array
    return np.ascontiguousarray(array, dtype)


def as_float32(array: Array) -> Array:
    """Return floating point as float32."""
    return np.asarray(array, np.float32) if np.issubdtype(array.dtype, np.floating) else array


def as_map(weights: Array, source: MapSource) -> Array:
    """Return a file's weights as [batch, head, query, key]."""
    array, axes = as_float32(weights), list(source.axes)
    if source.heads:
        array, axes = array.reshape(-1, source.heads, *array.shape[1:]), ["batch", "head", *axes[1:]]
    array = np.transpose(array, [axes.index(axis) for axis in _CANONICAL if axis in axes])
    return np.expand_dims(array, [place for place, axis in enumerate(_CANONICAL) if axis not in axes])
