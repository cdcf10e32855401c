"""Additive (B1) and concat (B2) scores: query and key meet in one hidden layer."""

import torch
from torch import Tensor

from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.pairwise import Activation, pairwise
from limelight_models.attention.scoring import Score


class Additive(Score):
    """Additive score (Bahdanau et al. 2015, appendix A.1.2; survey BF Table 2, G Table 3, C Table 2).

    e = wᵀ act(W₁ q + W₂ k + b)

    With `offset` a constant more, which alignments other than softmax can see.

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key].
    Memory: batch × head × query × key × d_w numbers, unless `chunk` (queries at a time) bounds it.
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    def __init__(
        self,
        *,
        d_q: int,
        d_k: int,
        d_w: int,
        heads: int = 1,
        act: Activation = torch.tanh,
        bias: bool = True,
        offset: bool = False,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        self.d_q, self.d_k, self.act, self.chunk = d_q, d_k, act, chunk
        self.query_map = HeadLinear(d_in=d_q, d_out=d_w, heads=heads, bias=bias)
        self.key_map = HeadLinear(d_in=d_k, d_out=d_w, heads=heads)
        self.importance = HeadLinear(d_in=d_w, d_out=1, heads=heads, bias=offset)

    def prepare(self, key: Tensor) -> Tensor:
        """W₂ k [batch, head, key, d_w]."""
        mapped: Tensor = self.key_map(key)
        return mapped

    def of_prepared(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return pairwise(self.query_map(query), key, self.pair_score, self.chunk)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.of_prepared(query, self.prepare(key), context)

    def pair_score(self, pair: Tensor) -> Tensor:
        """wᵀ act(pair) [batch, head, query, key]."""
        return weigh_pairs(self.act(pair), self.importance).squeeze(-1)


class Concat(Score):
    """Concat score (Luong et al. 2015, eq. 8; survey G Table 3, C Table 2).

    e = wᵀ act(W [q; k] + b)

    W is one matrix over the concatenation, which itself is never made: W [q; k] = W_q q + W_k k.

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key].
    Memory: as for the additive score.
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    def __init__(
        self,
        *,
        d_q: int,
        d_k: int,
        d_w: int,
        heads: int = 1,
        act: Activation = torch.tanh,
        bias: bool = True,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        self.d_q, self.d_k, self.act, self.chunk = d_q, d_k, act, chunk
        self.joint = HeadLinear(d_in=d_q + d_k, d_out=d_w, heads=heads, bias=bias)
        self.importance = HeadLinear(d_in=d_w, d_out=1, heads=heads)

    def prepare(self, key: Tensor) -> Tensor:
        """The key's part of W [q; k] [batch, head, key, d_w]."""
        return key @ self.joint.weight[:, self.d_q :]

    def of_prepared(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        query_part = query @ self.joint.weight[:, : self.d_q]
        if self.joint.bias is not None:
            query_part = query_part + self.joint.bias
        return pairwise(query_part, key, self.pair_score, self.chunk)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.of_prepared(query, self.prepare(key), context)

    def pair_score(self, pair: Tensor) -> Tensor:
        """wᵀ act(pair) [batch, head, query, key]."""
        return weigh_pairs(self.act(pair), self.importance).squeeze(-1)


def weigh_pairs(pair: Tensor, importance: HeadLinear) -> Tensor:
    """Each head's linear map over pairs.

    Shapes: pair [batch, head, query, key, d_w] -> [batch, head, query, key, d_out].
    """
    weighed = pair @ importance.weight.unsqueeze(1)
    return weighed if importance.bias is None else weighed + importance.bias.unsqueeze(1)
