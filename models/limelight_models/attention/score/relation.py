"""Relation-aware self-attention (B17): what stands how far away matters, for scores and for values."""

import math

import torch
from torch import Tensor, nn

from limelight_models.attention.combine import Combine, weighted_sum
from limelight_models.attention.context import Context
from limelight_models.attention.errors import require_features
from limelight_models.attention.scoring import Score


def relations(context: Context, scores: Tensor, reach: int) -> Tensor:
    """Clipped distance key - query, from 0 (-reach or less) to 2·reach (reach or more) [..., query, key]."""
    query_positions, key_positions = context.positions(scores)
    return (key_positions - query_positions).clamp(-reach, reach) + reach


class RelationAware(Score):
    """Relation-aware score (Shaw et al. 2018, eq. 4; survey S §5.1). Use it with `RelationValues` for the whole paper.

    e_ij = q_iᵀ (k_j + r^K_{j-i}) / √d, distances clipped to ± reach

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key].
    Raises: ShapeError where d differs from what the score was built for.
    """

    context_fields = ("query_positions", "key_positions")
    needs_equal_sizes = True
    key_order = True

    def __init__(self, *, d: int, reach: int) -> None:
        super().__init__()
        self.d_q = self.d_k = d
        self.reach = reach
        self.relation = nn.Parameter(torch.randn(2 * reach + 1, d) / math.sqrt(d))

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        query = query / math.sqrt(query.shape[-1])
        content = query @ key.transpose(-2, -1)
        index = relations(context, content, self.reach).expand(content.shape)
        return content + (query @ self.relation.T).gather(-1, index)


class RelationValues(Combine):
    """Values that know their distance from the query (Shaw et al. 2018, eq. 3).

    c_i = Σ_j a_ij (v_j + r^V_{j-i})

    Shapes: weights [batch, head, query, key], value [batch, head, key, d_v] -> [batch, head, query, d_v].
    Raises: ShapeError where d_v differs from what it was built for.
    """

    needs_multidimensional = False

    def __init__(self, *, d_v: int, reach: int) -> None:
        super().__init__()
        self.d_v, self.reach = d_v, reach
        self.relation = nn.Parameter(torch.randn(2 * reach + 1, d_v) / math.sqrt(d_v))

    def forward(self, weights: Tensor, value: Tensor, context: Context) -> Tensor:
        require_features(value, "value", self.d_v, self)
        index = relations(context, weights, self.reach).expand(weights.shape)
        by_relation = weights.new_zeros(()).expand(*weights.shape[:-1], 2 * self.reach + 1)
        by_relation = by_relation.scatter_add(-1, index, weights)
        return weighted_sum(weights, value) + by_relation @ self.relation
