"""Attention over inputs without a head axis: the one call that levels, hops, labels and several inputs share."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import CombinationError, ShapeError, require_axes

Contexts = Mapping[str, Context] | None


def attend(
    attention: nn.Module,
    query: Tensor | None,
    key: Tensor,
    value: Tensor | None = None,
    mask: Tensor | None = None,
    context: Context | None = None,
) -> tuple[Tensor, Tensor]:
    """One attention over [batch, position, feature]: an `Attention`, a `MultiHead`, or what else has its call.

    Where an `Attention` gives several heads (importance matrix), their context vectors lie side by side.

    Shapes: query [batch, query, d_q] or None, key [batch, key, d_k], value [batch, key, d_v] (default: key),
        mask broadcastable to [batch, head, query, key]
        -> context vectors [batch, query, head · d_v], weights [batch, head, query, key(, feature)].
    """
    require_axes(key, "key", "batch, key, d_k")
    if not getattr(attention, "takes_heads", False):
        context_vectors, weights = attention(query, key, value, mask, context)
        return context_vectors, weights
    one = [None if tensor is None else tensor.unsqueeze(1) for tensor in (query, value)]
    context_vectors, weights = attention(one[0], key.unsqueeze(1), one[1], mask, context)
    return join_heads(context_vectors), weights


def require_one_row(attention: nn.Module, why: str) -> None:
    """Raise CombinationError where an alignment inside gives several rows of weights a query (selective grid)."""
    for part in attention.modules():
        if getattr(part, "makes_queries", False):
            raise CombinationError(f"{type(part).__name__} gives several rows of weights a query, but {why}")


def join_heads(context_vectors: Tensor) -> Tensor:
    """Heads side by side: [batch, head, query, d] -> [batch, query, head · d]."""
    return context_vectors.transpose(1, 2).flatten(2)


def split_heads(features: Tensor, heads: int) -> Tensor:
    """Features cut into heads: [batch, position, head · d] -> [batch, head, position, d]."""
    if features.shape[-1] % heads:
        raise ShapeError(f"{features.shape[-1]} features cannot be divided into {heads} heads")
    return features.unflatten(-1, (heads, -1)).transpose(1, 2)


def rows_of(weights: Tensor, sizes: Sequence[int]) -> Tensor:
    """Weights of many small attentions, (batch, group) = `sizes`, as the rows of one.

    Shapes: weights [batch · group, head, row, key(, feature)] -> [batch, head, group · row, key(, feature)].
    """
    return weights.unflatten(0, sizes).transpose(1, 2).flatten(2, 3)


def over_keys(mask: Tensor | None) -> Tensor | None:
    """A mask of positions as a mask of keys: [batch, key] -> [batch, 1, 1, key]; one of four axes stays as it is."""
    if mask is None or mask.dim() == 4:
        return mask
    require_axes(mask, "mask", "batch, key")
    return mask[:, None, None, :]


def contexts_for(contexts: Contexts, names: Sequence[str]) -> list[Context | None]:
    """The context of each named attention, None where there is none; ValueError for a name that does not exist."""
    given = dict(contexts or {})
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise ValueError(f"there is no attention named {', '.join(unknown)} here; there are {', '.join(names)}")
    return [given.get(name) for name in names]


def average(features: Tensor, mask: Tensor | None = None) -> Tensor:
    """The unweighted average of an input, as a query (Ma et al. 2017, §2.2; survey BF eq. 10 and 17).

    q = 1/n Σ_l f_l, over the positions that the mask allows; zeros where there are none

    Shapes: features [batch, position, d], mask [batch, position] -> [batch, 1, d].
    """
    require_axes(features, "features", "batch, position, d")
    if mask is None:
        return features.mean(-2, keepdim=True)
    return share(mask.expand(features.shape[:-1]), features).unsqueeze(-2) @ features


def share(mask: Tensor, like: Tensor) -> Tensor:
    """Equal weights over the True entries of the last axis, in the dtype of `like`; zeros where there are none.

    They are counted: an axis of size 1 does not stand for all here.
    """
    # Dividing before anything is summed keeps half precision from overflowing.
    return mask.to(like.dtype) / mask.sum(-1, keepdim=True).clamp(min=1).to(like.dtype)


def of_pieces(pieces: Tensor, mask: Tensor) -> Tensor:
    """A vector of each word: the average of its pieces that the mask allows, zeros where there are none.

    Shapes: pieces [batch, word, piece, d], mask bool [batch, word, piece] -> [batch, word, d].
    """
    return (share(mask, pieces).unsqueeze(-2) @ pieces).squeeze(-2)
