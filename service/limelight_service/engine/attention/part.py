"""A map on its way through the pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limelight_bundle.descriptions import MapDescription
from limelight_bundle.values import Array
from limelight_service.attention.members import Indices
from limelight_service.attention.options import HeadReduction
from limelight_service.engine.attention.heads import Floats


@dataclass(frozen=True)
class Part:
    """A map between two stages of its reduction.

    normalised, signed, query_labels, key_labels: as they are now, which the description may no longer say.
    heads: indices of those that are here, or went into the one that is. queries, keys: indices of those that are here;
    None for all of the axis.
    query_count, key_count: places of both axes now (of a map of edges too, whose weights do not show them).
    weights: [head, query, key, …]; with `query_index` and `key_index` [edge] it is [head, edge, …]; once cut by top k
    [head, query, place], with `key_index` of the same shape.
    empty: [head, query, …], which rows attended to nothing before keys were left out; None while none are.
    lowest: what stands for a place where no score is possible. left_out: [head, query], once cut by top k.
    """

    description: MapDescription
    quantity: int
    normalised: bool
    signed: bool
    heads: Sequence[int]
    head_reduction: HeadReduction
    queries: Indices | None
    keys: Indices | None
    query_labels: str
    key_labels: str
    query_count: int
    key_count: int
    weights: Floats
    lowest: float
    query_index: npt.NDArray[np.int32] | None = None
    key_index: npt.NDArray[np.int32] | None = None
    left_out: Floats | None = None
    empty: npt.NDArray[np.bool_] | None = None

    @property
    def has_edges(self) -> bool:
        """True for a map of edges, until it is cut by top k."""
        return self.query_index is not None

    def edges(self) -> tuple[Indices, Indices]:
        """Give the places, among the queries and keys that are here, of every edge."""
        assert self.query_index is not None and self.key_index is not None
        return _places(self.query_index, self.queries), _places(self.key_index, self.keys)

    def empty_rows(self) -> npt.NDArray[np.bool_]:
        """Tell which rows attend to nothing, keys that were left out included: [head, query, …]."""
        if self.empty is not None:
            return self.empty
        something = self.weights != 0
        if not self.has_edges:
            return np.asarray(~something.any(axis=2))
        empty = np.ones((self.weights.shape[0], self.query_count, *self.weights.shape[2:]), dtype=bool)
        row, _ = self.edges()
        if len(row):
            present, starts = np.unique(row, return_index=True)
            empty[:, present] = ~np.logical_or.reduceat(something, starts, axis=1)
        return empty


@dataclass(frozen=True)
class Finished:
    """A map as it is sent (`AttentionMap` on the wire). scales: [head, query] for UINT8."""

    part: Part
    weights: Array
    scales: Floats | None = None


def _places(index: npt.NDArray[np.int32], kept: Indices | None) -> Indices:
    whole = index.astype(np.intp)
    return whole if kept is None else np.searchsorted(kept, whole)
