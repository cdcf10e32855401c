"""Rollout and flow of attention through the layers of a stack (Abnar and Zuidema 2020)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

_UNIT = 1_000_000  # capacities are whole numbers of millionths

Array = NDArray[np.float64]


def with_residual(weights: NDArray[np.floating]) -> Array:
    """Return 0.5 A + 0.5 I with rows that sum to 1: [entry, entry]."""
    mixed = 0.5 * np.asarray(weights, np.float64) + 0.5 * np.eye(len(weights))
    return np.asarray(mixed / mixed.sum(-1, keepdims=True))


def rollout(layers: Sequence[NDArray[np.floating]]) -> Array:
    """Multiply the layers, each with its residual: [output, input]. layers: [entry, entry] each, the first first."""
    product = np.eye(len(layers[0]))
    for weights in layers:
        product = with_residual(weights) @ product
    return product


def flow(layers: Sequence[NDArray[np.floating]], output: int) -> Array:
    """Return the largest flow from an entry of the last layer to each entry of the input: [input].

    An edge from an entry of a layer to an entry of the layer below carries at most the weight with its residual.

    Args:
        layers: [entry, entry] each, the first first.
        output: index of the entry in the last layer.
    """
    size, count = len(layers[0]), len(layers)
    starts, ends, capacities = [], [], []
    for number, weights in enumerate(layers, 1):
        upper, lower = np.nonzero(with_residual(weights) * _UNIT >= 1)
        starts.append(upper + number * size)
        ends.append(lower + (number - 1) * size)
        capacities.append((with_residual(weights)[upper, lower] * _UNIT).astype(np.int32))
    nodes = size * (count + 1)
    edges = np.concatenate(capacities), (np.concatenate(starts), np.concatenate(ends))
    graph = csr_matrix(edges, shape=(nodes, nodes))
    return np.array([maximum_flow(graph, count * size + output, entry).flow_value / _UNIT for entry in range(size)])
