"""Alignment and weighted sum in the edge form: each query has keys of its own, and an edge for each of them.

One shape for graphs, windows and sets of different sizes, and no place in it is padding: what a dense map holds in
[head, query, key], most of it masked, is [edge, head] here, beside which query and which key an edge belongs to.
"""

import torch
from torch import Tensor

from limelight_models.attention.errors import ShapeError
from limelight_models.attention.export_markers import is_marking_weights, marked_edges


def softmax(scores: Tensor, query_index: Tensor, queries: int) -> Tensor:
    """Softmax over the edges of each query (Veličković et al. 2018, eq. 2; survey BF eq. 25).

    a_ij = exp(e_ij) / Σ_{k ∈ N_i} exp(e_ik)

    Each query's largest score is taken off first, so that no exponential overflows, and the largest of each is 1.

    Shapes: scores [edge, head], query_index int64 [edge] from 0 to queries - 1 -> weights [edge, head]. Edges may be
        in any order; there may be none, and queries without one.
    Raises: ShapeError where scores or indices have other axes.
    """
    if scores.ndim != 2 or query_index.ndim != 1:
        raise ShapeError(
            f"scores are to be [edge, head] and query_index [edge]; they have {scores.ndim} and {query_index.ndim} axes"
        )
    lowest = scores.new_full((queries, scores.shape[1]), torch.finfo(scores.dtype).min)
    places = query_index.unsqueeze(-1).expand_as(scores)
    # A constant added to all scores of a query changes nothing: no gradient need pass through the largest.
    largest = lowest.scatter_reduce(0, places, scores.detach(), "amax", include_self=True)
    raised = (scores - largest[query_index]).exp()
    return raised / sums(raised, query_index, queries)[query_index]


def changed(weights: Tensor, query_index: Tensor, queries: int) -> tuple[Tensor, Tensor]:
    """Weights as an intervention leaves them, and the same times the factors of heads, by which values are summed.

    Both are the weights themselves where no graph is exported, and in a loop's body, which puts out no map. Shapes: as
    of `softmax`.
    """
    return marked_edges(weights, query_index, queries) if is_marking_weights() else (weights, weights)


def sums(values: Tensor, query_index: Tensor, queries: int) -> Tensor:
    """Sum what the edges of each query have; zeros for a query without edges.

    Not by `index_add`, which becomes ScatterND with a reduction in ONNX: on several threads ONNX Runtime's loses parts
    of a sum now and then (its issue 18048; still so in 1.31.1).

    Shapes: values [edge, ...], query_index int64 [edge] -> [query, ...].
    """
    places = query_index.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
    return values.new_zeros(queries, *values.shape[1:]).scatter_add(0, places, values)


def weighted_sum(weights: Tensor, values: Tensor, query_index: Tensor, key_index: Tensor, queries: int) -> Tensor:
    """Sum the values of each query's keys by their weights (BF eq. 4); zeros for a query without edges.

    c_i = Σ_{j ∈ N_i} a_ij v_j

    Shapes: weights [edge, head], values [key, head, d_v], query_index and key_index int64 [edge]
        -> [query, head, d_v].
    """
    return sums(weights.unsqueeze(-1) * values[key_index], query_index, queries)
