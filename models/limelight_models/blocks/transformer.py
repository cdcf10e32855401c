"""Layers of Transformers, and places.

Papers do not say what LayerNorm adds to the variance, ε; their code does: 1e-6 those of the Transformer and of Vision
Transformers, 1e-12 BERT and LXMERT. It is PyTorch's 1e-5 here, unless a model asks for its own.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import over_keys
from limelight_models.attention.quantities import QUANTITIES, AttentionQuantities
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import AroundAttention, Weights, weights_of

EPSILON, VIT_EPSILON, BERT_EPSILON = 1e-5, 1e-6, 1e-12


class EncoderLayer(nn.Module):
    """A layer with norms in front (Dosovitskiy et al. 2021, eq. 2–3; Wang et al. 2019, "pre-norm").

    z' = z + attention(norm(z));  z'' = z' + W₂ gelu(W₁ norm(z'))

    Shapes: features [batch, position, d_model], mask broadcastable to [batch, head, position, position] -> the same,
        looks [batch, head, position, position].
    """

    def __init__(self, *, d_model: int, heads: int, d_hidden: int, dropout: float, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model, epsilon)
        self.attention = MultiHead(attention=Attention(score=ScaledDot()), d_model=d_model, heads=heads)
        self.hidden_norm = nn.LayerNorm(d_model, epsilon)
        self.hidden = nn.Sequential(nn.Linear(d_model, d_hidden), nn.GELU(), nn.Linear(d_hidden, d_model))
        self.dropout = nn.Dropout(dropout)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights, which come with scores and norms."""
        return tuple(replace(each, quantities=QUANTITIES) for each in weights_of(self.attention))

    def forward(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, AttentionQuantities]:
        normed = self.attention_norm(features)
        attended, looks = self.attention.quantities(normed, normed, mask=mask)
        features = features + self.dropout(attended)
        return features + self.dropout(self.hidden(self.hidden_norm(features))), looks


class AddAndNorm(nn.Module):
    """norm(x + dropout(sublayer(x))) (Vaswani et al. 2017, §3.1)."""

    def __init__(self, *, d_model: int, dropout: float, epsilon: float = EPSILON) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(d_model, epsilon), nn.Dropout(dropout)

    def forward(self, features: Tensor, made: Tensor) -> Tensor:
        added: Tensor = self.norm(features + self.dropout(made))
        return added


class FeedForward(nn.Sequential):
    """W₂ act(W₁ x + b₁) + b₂, by default with max(0, x) (Vaswani et al. 2017, eq. 2)."""

    def __init__(self, *, d_model: int, d_hidden: int, act: type[nn.Module] = nn.ReLU) -> None:
        super().__init__(nn.Linear(d_model, d_hidden), act(), nn.Linear(d_hidden, d_model))


class PostNormLayer(AroundAttention, nn.Module):
    """Self-attention, then the position-wise network, with norms behind (Vaswani et al. 2017, Fig. 1, left).

    attention: called as `MultiHead`; by default one of so many heads, with scaled dot products. act: of the
    position-wise network; BERT's is `nn.GELU` (Devlin et al. 2019, §3). source: what is attended to in the place of
    the features themselves.

    Shapes: features [batch, position, d_model], mask bool [batch, key] or of four axes, source [batch, key, d_model] ->
        as features, weights [batch, head, position, key].
    """

    def __init__(
        self,
        *,
        d_model: int,
        d_hidden: int,
        dropout: float,
        heads: int = 1,
        attention: nn.Module | None = None,
        act: type[nn.Module] = nn.ReLU,
        epsilon: float = EPSILON,
    ) -> None:
        super().__init__()
        if attention is None:
            attention = MultiHead(attention=Attention(score=ScaledDot()), d_model=d_model, heads=heads)
        self.attention = attention
        self.hidden = FeedForward(d_model=d_model, d_hidden=d_hidden, act=act)
        self.after_attention, self.after_hidden = (
            AddAndNorm(d_model=d_model, dropout=dropout, epsilon=epsilon) for _ in range(2)
        )

    def forward(
        self, features: Tensor, mask: Tensor | None = None, source: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        attended, weights = self.attention(features, features if source is None else source, mask=over_keys(mask))
        features = self.after_attention(features, attended)
        return self.after_hidden(features, self.hidden(features)), weights


def places(position: Tensor, like: Tensor) -> Tensor:
    """PE(p, i) = sin(p / 10000^(2i / d_model)), and behind them their cosines (Vaswani et al. 2017, §3.5).

    Angles are float64, in exported graphs too: in float32 the sines of place 2,048 would be off by 1e-4.

    Shapes: position […], like [..., d_model] -> […, d_model], in the dtype of `like`.
    """
    d_model = like.shape[-1]
    # Exporting cuts plain numbers to float32, which these are in without a loss.
    exponents = torch.arange(0, d_model, 2, dtype=torch.float64, device=position.device) / -d_model
    angles = position.unsqueeze(-1) * 10_000**exponents
    return torch.cat([angles.sin(), angles.cos()], -1).to(like.dtype)


def turned(features: Tensor, position: Tensor) -> Tensor:
    """R_i x: features f and f + d/2 turned together, by the angle i / 10000^(2f/d) (Su et al. 2021, eq. 15, 34).

    Angles are float64, as those of `places`.

    Shapes: features [batch, head, token, d], position INT64 [token] or [batch, token] -> as features.
    """
    d = features.shape[-1]
    exponents = torch.arange(0, d, 2, dtype=torch.float64, device=features.device) / -d
    angles = position[..., None, :, None] * 10_000**exponents
    cos, sin = angles.cos().to(features.dtype), angles.sin().to(features.dtype)
    first, second = features.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
