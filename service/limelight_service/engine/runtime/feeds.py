"""The inputs of a graph for a batch of rows: tensors, masks and noise, stacked and padded."""

from collections.abc import Hashable, Sequence

import numpy as np

from limelight_bundle.errors import BundleError
from limelight_bundle.rows import Row, bound_tensors, collate
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.jobs import Job
from limelight_service.engine.runtime.noise import Noise


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

    def noise(self, jobs: Sequence[Job]) -> dict[str, Array]:
        """Draw the noise inputs."""
        if not self._noise.tensors:
            return {}
        rows = [Row(self._noise.draw(job.row, job.seed), job.row.sizes) for job in jobs]
        return collate(rows, self._noise.tensors)
