"""Alternating co-attention (G1): one input, then the other, then the first again."""

from typing import NamedTuple

from torch import Tensor, nn

from limelight_models.attention.features.pair import Pair
from limelight_models.attention.flat import Contexts, attend, contexts_for, over_keys
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.weights import Weights, weights_of


class AlternatingWeights(NamedTuple):
    """Weights of the three steps [batch, head, 1, position]; `start` and `first` are over the first input."""

    start: Tensor
    second: Tensor
    first: Tensor


class Alternating(nn.Module):
    """Alternating, coarse-grained co-attention (Lu et al. 2016, eq. 6; survey BF eq. 7–9).

    c⁰ = attention over F¹ without a query;  c² = attention of c⁰ over F²;  c¹ = attention of c² over F¹

    As in the paper the first step has the weights of the third, with a query of zeros; give `start` for a step of its
    own.

    Shapes: first [batch, first, d_1], second [batch, second, d_2], masks [batch, position];
        `over_first` takes queries of `d_query`, the size of c²
        -> Pair of context vectors [batch, d], AlternatingWeights.
    """

    def __init__(
        self,
        *,
        over_first: nn.Module,
        over_second: nn.Module,
        d_query: int,
        start: SelfAttentivePool | None = None,
    ) -> None:
        super().__init__()
        self.over_first, self.over_second, self.d_query, self.start = over_first, over_second, d_query, start

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of the start, of the second input, of the first."""
        start = self.over_first if self.start is None else self.start
        return weights_of(start, self.over_second, self.over_first)

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        contexts: Contexts = None,
    ) -> tuple[Pair, AlternatingWeights]:
        start_context, second_context, first_context = contexts_for(contexts, AlternatingWeights._fields)
        first_keys, second_keys = over_keys(first_mask), over_keys(second_mask)
        if self.start is None:
            nothing = first.new_zeros(()).expand(first.shape[0], 1, self.d_query)
            summary, start = attend(self.over_first, nothing, first, None, first_keys, start_context)
        else:
            vector, start = self.start(first, None, first_mask, start_context)
            summary = vector.unsqueeze(1)
        of_second, second_weights = attend(self.over_second, summary, second, None, second_keys, second_context)
        of_first, first_weights = attend(self.over_first, of_second, first, None, first_keys, first_context)
        return Pair(of_first.flatten(1), of_second.flatten(1)), AlternatingWeights(start, second_weights, first_weights)
