"""Dot-product attention as one operator of an exported program, so that an exporter sees where it was computed.

`limelight_export.surgery.attention` puts standard operators in its place: fused where nobody asks for the weights,
whole where somebody does, single rows where only those are wanted. No finished graph has it.
"""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from limelight_models.export_names import DOMAIN, EDGE_INTERVENTION, EFFECTIVE, INTERVENTION, QUERY_INDEX

OPERATOR = "DotAttention"

_marking = False


@contextlib.contextmanager
def marking() -> Iterator[None]:
    """Mark attention in what is exported in this block. Whoever exports otherwise gets standard operators."""
    global _marking
    before, _marking = _marking, True
    try:
        yield
    finally:
        _marking = before


def marked_weights(weights: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mark weights for `limelight_export.surgery.interventions`; for an export alone.

    Shapes: weights [batch, head, query, key], mask boolean and broadcastable to them -> weights as an intervention
        leaves them, of the same shape, and the factor of each head's context vectors [batch, head, 1, 1].
    """
    masks = [] if mask is None else [mask[(None,) * (4 - mask.dim())]]
    changed, factor = torch.onnx.ops.symbolic_multi_out(
        f"{DOMAIN}::{INTERVENTION}",
        [weights, *masks],
        {"heads": weights.shape[1] if isinstance(weights.shape[1], int) else 0},
        dtypes=(weights.dtype, weights.dtype),
        shapes=(tuple(weights.shape), (*weights.shape[:2], 1, 1)),
        version=1,
    )
    return changed, factor


def marked_edges(weights: Tensor, query_index: Tensor, queries: int) -> tuple[Tensor, Tensor]:
    """Mark weights of edges, as `marked_weights` does; for an export alone.

    Shapes: weights [edge, head], query_index int64 [edge] -> weights as an intervention leaves them, and the same times
        the factors of their heads, both [edge, head].
    """
    shape = tuple(weights.shape)
    changed, scaled = torch.onnx.ops.symbolic_multi_out(
        f"{DOMAIN}::{EDGE_INTERVENTION}",
        [weights, query_index, weights.new_zeros(queries, weights.shape[1])],
        {"heads": weights.shape[1]},
        dtypes=(weights.dtype, weights.dtype),
        shapes=(shape, shape),
        version=1,
    )
    return changed, scaled


def asked_queries(query: Tensor) -> Tensor:
    """Give the queries whose effective weights are to be computed: all, but in a graph those that a run asks for.

    Shapes: query [batch, head, query, d] -> INT64 [row].
    """
    if not is_marking_weights():
        return torch.arange(query.shape[2], device=query.device)
    return torch.onnx.ops.symbolic(
        f"{DOMAIN}::{QUERY_INDEX}", [query], dtype=torch.int64, shape=(query.shape[2],), version=1
    )


def marked_effective(found: Tensor, weights: Tensor, value: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Mark what attention comes to for `limelight_export.surgery.effective_maps`; outside of an export nothing changes.

    Shapes: context vectors [batch, head, query, d_v], weights [batch, head, query, key] of the queries that
        `asked_queries` gave, value [batch, head, key, d_v], allowed boolean, keys that these queries may attend to,
        broadcastable to the weights -> context vectors, weights.
    """
    if not is_marking_weights():
        return found, weights
    context_vectors, marked = torch.onnx.ops.symbolic_multi_out(
        f"{DOMAIN}::{EFFECTIVE}",
        [found, weights, value, allowed[(None,) * (4 - allowed.dim())]],
        {"heads": weights.shape[1]},
        dtypes=(found.dtype, weights.dtype),
        shapes=(tuple(found.shape), tuple(weights.shape)),
        version=1,
    )
    return context_vectors, marked


def is_marking() -> bool:
    """Tell whether attention is to be marked."""
    return _marking and torch.compiler.is_exporting()


def is_marking_weights() -> bool:
    """Tell whether weights are to be marked for interventions: not in a loop's body, which puts out no map."""
    return is_marking() and not torch.compiler.is_dynamo_compiling()


def marked_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, *, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """c = softmax(scale · q kᵀ + bias) v, for an export alone: the numbers that it gives mean nothing.

    Shapes: query [batch, head, query, d], key [batch, head, key, d], value [batch, head, key, d_v], mask boolean and
        broadcastable to [batch, head, query, key], bias of four axes that broadcasts to the same -> context vectors
        [batch, head, query, d_v], weights [batch, head, query, key]. A bias alone may hold -inf; beside a mask it is
        finite.
    """
    masks = [None if mask is None else mask[(None,) * (4 - mask.dim())], bias]
    while masks and masks[-1] is None:
        masks.pop()
    context_vectors, weights = torch.onnx.ops.symbolic_multi_out(
        f"{DOMAIN}::{OPERATOR}",
        [query, key, value, *masks],
        {"scale": scale},
        dtypes=(value.dtype, value.dtype),
        shapes=((*query.shape[:-1], value.shape[-1]), (*query.shape[:-1], key.shape[-2])),
        version=1,
    )
    return context_vectors, weights


def can_be_marked(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Tell whether three tensors have the same heads and one batch, as far as an export knows sizes."""
    heads = {tensor.shape[1] for tensor in (query, key, value)}
    varies = {isinstance(tensor.shape[0], int) for tensor in (query, key, value)}
    return all(isinstance(each, int) for each in heads) and len(heads) == 1 and len(varies) == 1
