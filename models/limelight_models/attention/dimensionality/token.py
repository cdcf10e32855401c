"""The two multi-dimensional scores of DiSAN (D2): token2token and source2token."""

import torch
from torch import Tensor
from torch.nn.functional import elu

from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.pairwise import Activation, pairwise
from limelight_models.attention.scoring import Score


class TokenToToken(Score):
    """Token2token: how each token's features matter to each other token (Shen et al. 2018a, eq. 15; survey S §5.1).

    e = c · tanh((W₁ k + W₂ q + b) / c), with c = 5

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key, d_v].
    Memory: batch × head × query × key × d_v numbers.
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    multidimensional = True

    def __init__(self, *, d_q: int, d_k: int, d_v: int, bound: float = 5.0, heads: int = 1) -> None:
        super().__init__()
        self.d_q, self.d_k, self.bound = d_q, d_k, bound
        self.query_map = HeadLinear(d_in=d_q, d_out=d_v, heads=heads, bias=True)
        self.key_map = HeadLinear(d_in=d_k, d_out=d_v, heads=heads)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return pairwise(self.query_map(query), self.key_map(key), self.pair_score)

    def pair_score(self, pair: Tensor) -> Tensor:
        """c · tanh(pair / c)."""
        return self.bound * torch.tanh(pair / self.bound)


class SourceToToken(Score):
    """Source2token: how each token's features matter to the whole (Shen et al. 2018a, eq. 13; survey S §5.1).

    e = W₂ act(W₁ k + b₁) + b₂

    The query is not read and may be None: one row of weights.

    Shapes: key [batch, head, key, d_k] -> scores [batch, head, query or 1, key, d_v].
    Raises: ShapeError where d_k differs from what the score was built for.
    """

    multidimensional = True
    query_free = True

    def __init__(self, *, d_k: int, d_w: int, d_v: int, heads: int = 1, act: Activation = elu) -> None:
        super().__init__()
        self.d_k, self.act = d_k, act
        self.hidden = HeadLinear(d_in=d_k, d_out=d_w, heads=heads, bias=True)
        # b₂ is the same for all keys: it is kept because alignments other than softmax can see it.
        self.importance = HeadLinear(d_in=d_w, d_out=d_v, heads=heads, bias=True)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        scores = self.importance(self.act(self.hidden(key)))
        return scores.unsqueeze(2).expand(-1, -1, query.shape[-2], -1, -1)
