"""Layers whose branches begin small, and a class token that reads patches at the end (CaiT, Touvron et al. 2021b)."""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import AroundAttention
from limelight_models.blocks.transformer import VIT_EPSILON


class Branch(nn.Module):
    """x + γ ⊙ made, γ a number for each feature (LayerScale, Touvron et al. 2021b, eq. 4); `norm` is for what makes it.

    Shapes: x, made [..., d_model] -> the same.
    """

    def __init__(self, *, d_model: int, scale: float, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d_model, VIT_EPSILON), nn.Dropout(dropout)
        self.gamma = nn.Parameter(torch.full((d_model,), scale))

    def forward(self, x: Tensor, made: Tensor) -> Tensor:
        added: Tensor = x + self.dropout(self.gamma * made)
        return added


class HiddenBranch(nn.Module):
    """x + γ ⊙ W₂ gelu(W₁ norm(x)). Shapes: [..., d_model] -> the same."""

    def __init__(self, *, d_model: int, d_hidden: int, scale: float, dropout: float) -> None:
        super().__init__()
        self.add = Branch(d_model=d_model, scale=scale, dropout=dropout)
        self.layers = nn.Sequential(nn.Linear(d_model, d_hidden), nn.GELU(), nn.Linear(d_hidden, d_model))

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.add(x, self.layers(self.add.norm(x)))
        return added


class ClassLayer(AroundAttention, nn.Module):
    """A class token attends to itself and the patches, which stay as they are (Touvron et al. 2021b, §3).

    Shapes: token [batch, 1, d_model], patches [batch, patch, d_model] -> token, weights [batch, head, 1, 1 + patch].
    """

    def __init__(self, *, d_model: int, heads: int, d_hidden: int, scale: float, dropout: float) -> None:
        super().__init__()
        self.attention = MultiHead(attention=Attention(score=ScaledDot()), d_model=d_model, heads=heads)
        self.add = Branch(d_model=d_model, scale=scale, dropout=dropout)
        self.hidden = HiddenBranch(d_model=d_model, d_hidden=d_hidden, scale=scale, dropout=dropout)

    def forward(self, token: Tensor, patches: Tensor) -> tuple[Tensor, Tensor]:
        normed = self.add.norm(torch.cat([token, patches], 1))
        found, weights = self.attention(normed[:, :1], normed)
        return self.hidden(self.add(token, found)), weights
