"""Deep score (B9): several hidden layers between pair and score."""

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.additive import weigh_pairs
from limelight_models.attention.score.pairwise import Activation, pairwise
from limelight_models.attention.scoring import Score


class Deep(Score):
    """Deep score (Pavlopoulos et al. 2017; survey G Table 3, C Table 2).

    E¹ = act(W₁ k + W₀ q + b¹);  Eˡ = act(W_l Eˡ⁻¹ + bˡ);  e = wᵀ Eᴸ⁻¹ + bᴸ

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key].
    Memory: batch × head × query × key × d_w numbers a layer, unless `chunk` (queries at a time) bounds it.
    Raises: ShapeError where d_q or d_k differ from what the score was built for; ValueError where layers < 2.
    """

    def __init__(
        self,
        *,
        d_q: int,
        d_k: int,
        d_w: int,
        layers: int = 3,
        heads: int = 1,
        act: Activation = torch.tanh,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        if layers < 2:
            raise ValueError(f"a deep score has at least 2 layers (L in the survey); it was given {layers}")
        self.d_q, self.d_k, self.act, self.chunk = d_q, d_k, act, chunk
        self.query_map = HeadLinear(d_in=d_q, d_out=d_w, heads=heads, bias=True)
        self.key_map = HeadLinear(d_in=d_k, d_out=d_w, heads=heads)
        self.hidden = nn.ModuleList(HeadLinear(d_in=d_w, d_out=d_w, heads=heads, bias=True) for _ in range(layers - 2))
        self.importance = HeadLinear(d_in=d_w, d_out=1, heads=heads)
        self.offset = nn.Parameter(torch.zeros(heads, 1, 1))

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return pairwise(self.query_map(query), self.key_map(key), self.pair_score, self.chunk) + self.offset

    def pair_score(self, pair: Tensor) -> Tensor:
        """The layers above the first [batch, head, query, key]."""
        pair = self.act(pair)
        for layer in self.hidden:
            assert isinstance(layer, HeadLinear)
            pair = self.act(weigh_pairs(pair, layer))
        return weigh_pairs(pair, self.importance).squeeze(-1)
