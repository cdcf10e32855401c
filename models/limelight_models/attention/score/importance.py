"""Several scores a key: one per feature (B14), or one per output (B15)."""

import torch
from torch import Tensor

from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.additive import weigh_pairs
from limelight_models.attention.score.pairwise import Activation, pairwise
from limelight_models.attention.scoring import Score


class MultiDimensional(Score):
    """Multi-dimensional score: a vector of scores a key (Shen et al. 2018a, eq. 11; survey BF eq. 31).

    e = W_dᵀ act(W₁ q + W₂ k + b), W_d ∈ ℝ^{d_w × d_v}

    With `offset` a constant more, as for the additive score.

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key, d_v].
    Memory: batch × head × query × key × (d_w + d_v) numbers; `chunk` (queries at a time) bounds the d_w part.
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    multidimensional = True

    def __init__(
        self,
        *,
        d_q: int,
        d_k: int,
        d_w: int,
        d_v: int,
        heads: int = 1,
        act: Activation = torch.tanh,
        offset: bool = False,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        self.d_q, self.d_k, self.act, self.chunk = d_q, d_k, act, chunk
        self.query_map = HeadLinear(d_in=d_q, d_out=d_w, heads=heads, bias=True)
        self.key_map = HeadLinear(d_in=d_k, d_out=d_w, heads=heads)
        self.importance = HeadLinear(d_in=d_w, d_out=d_v, heads=heads, bias=offset)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return pairwise(self.query_map(query), self.key_map(key), self.pair_score, self.chunk)

    def pair_score(self, pair: Tensor) -> Tensor:
        """W_dᵀ act(pair) [batch, head, query, key, d_v]."""
        return weigh_pairs(self.act(pair), self.importance)


class ImportanceMatrix(Score):
    """Importance matrix: n_o distributions over the same keys (Lin et al. 2017, eq. 6; survey G §3.4.1).

    e_o = w_oᵀ act(W₁ q + W₂ k + b), [w_1 … w_{n_o}] = W_imp; without `d_q` the query is not read

    Each output is a head of the answer, so the input has one head. Lin et al. have no b: `bias=False`.

    Shapes: query [batch, 1, query, d_q] or None, key [batch, 1, key, d_k] -> scores [batch, n_o, query or 1, key].
    Raises: ShapeError where the input has several heads, or d_q or d_k differ.
    """

    makes_heads = True

    def __init__(
        self,
        *,
        d_k: int,
        d_w: int,
        outputs: int,
        d_q: int | None = None,
        act: Activation = torch.tanh,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.d_q, self.d_k, self.act, self.query_free = d_q, d_k, act, d_q is None
        self.outputs = outputs
        self.query_map = None if d_q is None else HeadLinear(d_in=d_q, d_out=d_w)
        self.key_map = HeadLinear(d_in=d_k, d_out=d_w, bias=bias)
        self.importance = HeadLinear(d_in=d_w, d_out=outputs)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        if key.shape[1] != 1:
            raise ShapeError(f"ImportanceMatrix makes heads itself and takes one; key has {key.shape[1]}")
        keys = self.key_map(key)
        # Where the query is not read, one row of zeros a query stands for it.
        queries = torch.zeros_like(query[..., :1]) if self.query_map is None else self.query_map(query)
        return pairwise(queries, keys, self.pair_score).squeeze(1).movedim(-1, 1)

    def pair_score(self, pair: Tensor) -> Tensor:
        """W_impᵀ act(pair) [batch, 1, query, key, n_o]."""
        return weigh_pairs(self.act(pair), self.importance)
