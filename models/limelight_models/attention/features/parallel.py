"""Parallel co-attention (G3, G4): every element of one input meets every element of the other."""

from dataclasses import replace

from torch import Tensor, nn

from limelight_models.attention.alignment import both, keep
from limelight_models.attention.combine import WeightedSum, weighted_sum
from limelight_models.attention.context import Context
from limelight_models.attention.core import Attention, check_call
from limelight_models.attention.errors import CombinationError, require_axes
from limelight_models.attention.features.aggregate import Aggregate, Side
from limelight_models.attention.features.pair import FineWeights, Pair
from limelight_models.attention.flat import Contexts, contexts_for, join_heads, over_keys, split_heads
from limelight_models.attention.weights import Weights, weights_of


class Parallel(nn.Module):
    """Parallel, fine-grained co-attention (Lu et al. 2016, eq. 3–5; survey BF eq. 12–16, G §3.4.2 and Table 4).

    A = score(K₁, K₂);  a¹, a² = aggregate(A), by align;  c¹ = Σ_i a¹_i v¹_i;  c² = Σ_j a²_j v²_j

    `attention` gives the score, which is the affinity, and the alignment. Attentive pooling is `Pooling` with
    `TanhBilinear`, the attention-over-attention reader `AttentionOverAttention` with `Dot`. With several `heads` the
    features are cut into that many parts.

    Shapes: first [batch, first, d_1], second [batch, second, d_2], masks [batch, position]
        -> Pair of context vectors [batch, d], FineWeights.
    Raises: CombinationError at construction where the alignment or the combination reads a query, because aggregated
        scores have none, or where the score reads none; ShapeError where inputs do not fit.
    """

    def __init__(self, *, attention: Attention, aggregate: Aggregate, heads: int = 1) -> None:
        super().__init__()
        score, align, combine = attention.score, attention.align, attention.combine
        if score.query_free:
            raise CombinationError(f"{type(score).__name__} ignores the query, so it is no affinity of two inputs")
        if align.needs_query:
            raise CombinationError(f"{type(align).__name__} reads the query; aggregated scores belong to no query")
        if type(combine) is not WeightedSum:
            raise CombinationError(
                f"{type(combine).__name__} needs a query's own weights; aggregated ones have no query"
            )
        self.attention, self.aggregate, self.heads = attention, aggregate, heads

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of the first input, of the second, and the affinity."""
        (one,) = weights_of(self.attention)
        one = replace(one, heads=one.heads * self.heads)
        return one, one, replace(one, normalised=False, signed=True)

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        contexts: Contexts = None,
    ) -> tuple[Pair, FineWeights]:
        names = Pair._fields
        require_axes(first, "first", "batch, first, d_1")
        require_axes(second, "second", "batch, second, d_2")
        sides = [
            side(split_heads(features, self.heads), over_keys(mask), context)
            for features, mask, context in zip(
                (first, second), (first_mask, second_mask), contexts_for(contexts, names), strict=True
            )
        ]
        affinity = self.affinity(*sides)
        weights = self.aggregate(affinity, *sides, self.attention.align)
        if self.attention.score.multidimensional:
            weights, affinity = Pair(*(w.movedim(0, -1) for w in weights)), affinity.movedim(0, -1)
        vectors = (weighted_sum(w, s.features) for w, s in zip(weights, sides, strict=True))
        return Pair(*(join_heads(v).flatten(1) for v in vectors)), FineWeights(weights.first, weights.second, affinity)

    def affinity(self, first: Side, second: Side) -> Tensor:
        """Scores of all pairs, zero where either is masked ([feature,] batch, head, first, second)."""
        score = self.attention.score
        check_call(score, first.features, second.features, second.features, None)
        rows = transposed(first.mask)
        mask = second.mask if rows is None else both(second.mask, rows)
        affinity = score(first.features, second.features, Context(query=first.features, key=second.features, mask=mask))
        return keep(affinity.movedim(-1, 0) if score.multidimensional else affinity, mask)


def side(features: Tensor, mask: Tensor | None, context: Context | None) -> Side:
    """One input with what its alignment may read."""
    return Side(features, mask, replace(context or Context(), key=features, mask=mask))


def transposed(mask: Tensor | None) -> Tensor | None:
    """A mask of keys as a mask of queries: [batch, 1, 1, position] -> [batch, 1, position, 1]."""
    return None if mask is None else mask.transpose(-2, -1)
