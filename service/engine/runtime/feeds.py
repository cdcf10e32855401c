"""The inputs of a graph for a batch of rows: tensors, masks and noise, stacked and padded."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from bundle.errors import BundleError
from bundle.rows import Row, bound_tensors, collate
from bundle.v1 import bundle_pb2
from bundle.values import Array
from service.engine.jobs import Job
from service.engine.runtime.cuda_graphs import ShapeBucket
from service.engine.runtime.noise import Noise


class Feeds:
    """Puts the inputs of one graph together: the rows' tensors, their masks and indices, and noise."""

    def __init__(
        self, bundle: bundle_pb2.Bundle, graph: bundle_pb2.OnnxGraph, *, besides: frozenset[str] = frozenset()
    ) -> None:
        """Bind the tensors of a description to the inputs of a graph.

        Args:
            besides: inputs that come from elsewhere.

        Raises:
            BundleError: the graph takes an input that neither the description nor the noise inputs have.
        """
        self._noise = Noise.of_graph(bundle, graph)
        wanted = set(graph.inputs) - besides
        bound = bound_tensors(bundle.description.inputs, bundle.tensors)
        self._tensors = [each for each in bound.values() if {each.name, *each.derived} & wanted]
        names = {name for each in self._tensors for name in (each.name, *each.derived)}
        names |= {each.name for each in self._noise.tensors}
        if missing := wanted - names:
            raise BundleError(f"the graph {graph.name} takes {sorted(missing)}, which nothing in the bundle describes")
        self._names = frozenset(wanted)
        self._stacked = not any(each.joined for each in self._tensors)

    def group(self, row: Row) -> Hashable:
        """Give the key that the rows of one batch share: which optional tensors they have."""
        return tuple([each.name in row.tensors for each in self._tensors])

    def batch(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Give every input of the graph."""
        return self.tensors(jobs) | self.noise(jobs) if self._noise.tensors else self.tensors(jobs)

    def tensors(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Stack the tensors of the rows; a row alone is not copied."""
        if len(jobs) == 1 and self._stacked:
            tensors = jobs[0].row.tensors
            return {name: tensors[name][np.newaxis] for name in self._names if name in tensors}
        batch = collate([job.row for job in jobs], self._tensors)
        return {name: array for name, array in batch.items() if name in self._names}

    @property
    def varying(self) -> Mapping[str, int] | None:
        """The axes that vary, and the most entries of each (0 for no limit), along which a batch can be padded.

        None where a batch cannot be padded to any size.
        """
        axes: dict[str, int] = {}
        for each in self._tensors:
            own = {one.name: one.maximum for one in each.description.dimensions if not one.size}
            if each.joined or (own and not each.mask):
                return None
            axes |= own
        return None if self._noise.tensors else axes

    def fitted(self, rows: Sequence[Row], bucket: ShapeBucket) -> dict[str, Array]:
        """Stack rows as a batch of a fixed shape. Only where `varying` has one axis at most.

        The first row stands for those that are missing, and longer tensors are cut.
        """
        batch: dict[str, Array] = {}
        for each in self._tensors:
            shape = [bucket.rows, *(dimension.size or bucket.length for dimension in each.description.dimensions)]
            for name, pad in ((each.name, each.pad_value), (each.mask, 0.0)):
                if name in self._names and name in rows[0].tensors:
                    batch[name] = np.full(shape, pad, rows[0].tensors[name].dtype)
                    for place, filled in enumerate(batch[name]):
                        array = rows[place if place < len(rows) else 0].tensors[name]
                        inside = tuple(slice(min(sizes)) for sizes in zip(array.shape, filled.shape, strict=True))
                        filled[inside] = array[inside]
        return batch

    def noise(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Draw the noise inputs."""
        if not self._noise.tensors:
            return {}
        rows = [Row(self._noise.draw(job.row, job.seed), job.row.sizes) for job in jobs]
        return collate(rows, self._noise.tensors)
