"""Bilinear scores: general (B5), biased general (B6) and activated general (B7)."""

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.pairwise import Activation
from limelight_models.attention.scoring import Score


class General(Score):
    """General, or bilinear, score (Luong et al. 2015, eq. 8; survey BF Table 2, G Table 3, C Table 2).

    e = kᵀ W q

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key].
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    bias: bool = False

    def __init__(self, *, d_q: int, d_k: int, heads: int = 1) -> None:
        super().__init__()
        self.d_q, self.d_k = d_q, d_k
        self.query_map = HeadLinear(d_in=d_q, d_out=d_k, heads=heads, bias=self.bias)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float] | None:
        return self.query_map(query), key, 1.0

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.query_map(query) @ key.transpose(-2, -1)


class BiasedGeneral(General):
    """Biased general score: some keys matter whatever the query (Sordoni et al. 2016; survey BF Table 2, G Table 3).

    e = kᵀ (W q + b)

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key].
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    bias = True


class ActivatedGeneral(General):
    """Activated general score (Ma et al. 2017, eq. 4; survey BF Table 2, G Table 3).

    e = act(kᵀ W q + b), with one number b (a head)

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key].
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    def __init__(self, *, d_q: int, d_k: int, heads: int = 1, act: Activation = torch.tanh) -> None:
        super().__init__(d_q=d_q, d_k=d_k, heads=heads)
        self.act = act
        self.offset = nn.Parameter(torch.zeros(heads, 1, 1))

    def as_dot(self, query: Tensor, key: Tensor) -> None:
        return None

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.act(super().forward(query, key, context) + self.offset)
