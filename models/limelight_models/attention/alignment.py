"""The interface of alignments, and their shared steps."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context


class Align(nn.Module):
    """Weights from scores (BF eq. 3 and 25; G and C: distribution function).

    a = align(e)

    The key axis is last; axes before [batch, head, query, key] (features) are allowed and independent.
    Masked keys get exactly 0, and a query with nothing to attend to gets zeros.

    Shapes: scores [..., batch, head, query, key], mask broadcastable to them -> weights of the same shape.
    """

    normalised: bool = True  # weights of a query sum to 1 (to 0 where nothing may be attended to)
    signed: bool = False  # weights may be negative
    stochastic: bool = False  # draws when training, or when the context carries noise
    sparse: bool = False  # allowed keys may get exactly 0
    shift_invariant: bool = True  # adding a constant to the scores changes nothing
    scale_hardens: bool = True  # multiplying the scores tends to all weight on the best key
    key_order: bool = False  # reads the order of the keys (positions), so permuting keys matters
    needs_kernel: bool = False  # scores must be a kernel, see Score.kernel
    uses_scores: bool = True
    needs_query: bool = False  # reads the query itself
    makes_queries: bool = False  # gives several rows of weights a query
    context_fields: tuple[str, ...] = ()  # what it reads of the context besides query, key and mask
    d_q: int | None = None
    rows: int = 1  # rows of weights that it gives a query
    carries: bool = False  # the next step starts from `carried`, not from the weights

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        raise NotImplementedError

    def signals(self, scores: Tensor, mask: Tensor | None, context: Context) -> Mapping[str, Tensor]:
        """Training signals besides the task's loss; by default none.

        `log_probability` [batch] of what the context's noise makes it draw, for REINFORCE, with the draw's `entropy`
        [batch] or the `cost` [batch] of what was kept; `span`, a number: how far it looks.
        """
        return {}

    def carried(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        """The next step's previous weights, where the alignment `carries` something else than the weights."""
        raise NotImplementedError


# What others ask about.
CAPABILITIES = ("d_q", "rows", *(name for name, kind in Align.__annotations__.items() if kind is bool))


def fill(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores with the dtype's most negative number where attending is not allowed."""
    return scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)


def keep(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Weights with exact zeros where attending is not allowed."""
    return weights if mask is None else weights * mask


def softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the allowed keys; zeros where there are none."""
    return keep(fill(scores, mask).softmax(-1), mask)


def in_single(tensor: Tensor) -> Tensor:
    """Float32 at least: sums over sorted scores, positions and probabilities lose too much in half precision."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def both(mask: Tensor | None, other: Tensor) -> Tensor:
    """The keys that both masks allow."""
    return other if mask is None else mask & other


def whole(mask: Tensor, query: int, key: int) -> Tensor:
    """A mask with all queries and all keys, so that they can be counted.

    An axis of size 1 stands for all of them only while masks are combined: whoever sums over it counts one.

    Shapes: mask [..., query or 1, key or 1] -> [..., query, key].
    """
    return mask.expand(*mask.shape[:-2], query, key)


def log_sigmoid(x: Tensor) -> Tensor:
    """log σ(x), in a graph too: the exporter's is the logarithm of a sigmoid, which is -inf where x is below -88."""
    return -((-x).relu() + (-x.abs()).exp().log1p())


def normalise(weights: Tensor) -> Tensor:
    """Non-negative weights divided by their sum; rows of zeros stay zeros."""
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total > 0, total, torch.ones_like(total))
