"""From an affinity matrix to weights of either input (G7, G Table 4): what aggregations share, pooling, linear."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import Align, fill, keep
from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError
from limelight_models.attention.features.pair import Pair


class Side(NamedTuple):
    """One input: features [batch, head, position, d], mask [batch, 1, 1, position], the context of its alignment."""

    features: Tensor
    mask: Tensor | None
    context: Context


class Aggregate(nn.Module):
    """Weights of both inputs from their affinity (survey G §3.4.2, Table 4).

    Shapes: affinity [..., batch, head, first, second] -> Pair of weights [..., batch, head, 1, position].
    """

    has_scores = True  # makes `scores`; otherwise weights follow from those of the affinity

    def forward(self, affinity: Tensor, first: Side, second: Side, align: Align) -> Pair:
        first_scores, second_scores = self.scores(affinity, first, second, align)
        return Pair(align_row(first_scores, first, align), align_row(second_scores, second, align))

    def scores(self, affinity: Tensor, first: Side, second: Side, align: Align) -> tuple[Tensor, Tensor]:
        """One score a position of either input: [..., first], [..., second]."""
        raise NotImplementedError


def align_row(scores: Tensor, side: Side, align: Align) -> Tensor:
    """Weights [..., 1, position] from one score a position."""
    weights: Tensor = align(scores.unsqueeze(-2), side.mask, side.context)
    return weights


class Pooling(Aggregate):
    """Attentive pooling: a position counts as much as its best partner (dos Santos et al. 2016, eq. 4–5; BF eq. 16).

    e¹_i = max_j A_ij;  e²_j = max_i A_ij, over allowed partners; 0 where there are none

    Shapes: affinity [..., batch, head, first, second] -> Pair of weights [..., batch, head, 1, position].
    """

    def scores(self, affinity: Tensor, first: Side, second: Side, align: Align) -> tuple[Tensor, Tensor]:
        return best(affinity, second.mask), best(affinity.transpose(-2, -1), first.mask)


def best(affinity: Tensor, mask: Tensor | None) -> Tensor:
    """The largest allowed entry of each row; 0 where none is allowed."""
    top = fill(affinity, mask).amax(-1)
    return top if mask is None else keep(top, mask.any(-1))


class LinearTransformation(Aggregate):
    """Scores as a linear function of affinities (Li et al. 2018c; survey G Table 4).

    e¹ = A w₂;  e² = w₁ᵀ A, with one number of w a position of the other input

    Shapes: affinity [..., batch, head, first, second] -> Pair of weights [..., batch, head, 1, position].
    Raises: ShapeError where an input is longer than it was built for.
    """

    def __init__(self, *, max_first: int, max_second: int) -> None:
        super().__init__()
        self.first_weight = nn.Parameter(torch.randn(max_first) / max_first**0.5)
        self.second_weight = nn.Parameter(torch.randn(max_second) / max_second**0.5)

    def scores(self, affinity: Tensor, first: Side, second: Side, align: Align) -> tuple[Tensor, Tensor]:
        of_first = head_of(self.first_weight, affinity.shape[-2], "first")
        of_second = head_of(self.second_weight, affinity.shape[-1], "second")
        return keep(affinity, second.mask) @ of_second, keep(affinity.transpose(-2, -1), first.mask) @ of_first


def head_of(weight: Tensor, length: int, name: str) -> Tensor:
    """The first `length` numbers of `weight`, by a gather: a slice would tie an exported graph to its length."""
    if not torch.compiler.is_exporting() and length > weight.shape[0]:
        raise ShapeError(
            f"the {name} input has {length} positions; LinearTransformation was built for {weight.shape[0]}"
        )
    return weight.index_select(0, torch.arange(length, device=weight.device))
