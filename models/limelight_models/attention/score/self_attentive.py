"""Query-free score (B13): keys are judged by themselves."""

import torch
from torch import Tensor

from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.pairwise import Activation
from limelight_models.attention.scoring import Score


class SelfAttentive(Score):
    """Self-attentive score (Yang et al. 2016, eq. 5–6; survey BF eq. 33). The query may be None: one row of weights.

    e = wᵀ act(W k + b)

    BF eq. 34, qᵀ k with a trained q, is `LearnedQuery` with the dot score.

    Shapes: query None or [batch, head, query, any], key [batch, head, key, d_k]
        -> scores [batch, head, query or 1, key].
    Raises: ShapeError where d_k differs from what the score was built for.
    """

    query_free = True

    def __init__(self, *, d_k: int, d_w: int, heads: int = 1, act: Activation = torch.tanh) -> None:
        super().__init__()
        self.d_k, self.act = d_k, act
        self.key_map = HeadLinear(d_in=d_k, d_out=d_w, heads=heads, bias=True)
        self.importance = HeadLinear(d_in=d_w, d_out=1, heads=heads)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return every_query(self.importance(self.act(self.key_map(key))).transpose(-2, -1), query)


def every_query(row: Tensor, query: Tensor) -> Tensor:
    """One row of scores [batch, head, 1, key], the same for every query -> [batch, head, query, key]."""
    return row.expand(-1, -1, query.shape[-2], -1)
