"""Layers of Transformers."""

from torch import Tensor, nn

from models.attention import Attention
from models.attention.queries.multi_head import MultiHead
from models.attention.score import ScaledDot


class EncoderLayer(nn.Module):
    """A layer with norms in front (Dosovitskiy et al. 2021, eq. 2–3; Wang et al. 2019, "pre-norm").

    z' = z + attention(norm(z));  z'' = z' + W₂ gelu(W₁ norm(z'))

    Shapes: features [batch, position, d_model] -> the same, weights [batch, head, position, position].
    """

    def __init__(self, *, d_model: int, heads: int, d_hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d_model)
        self.attention = MultiHead(attention=Attention(score=ScaledDot()), d_model=d_model, heads=heads)
        self.hidden_norm = nn.LayerNorm(d_model)
        self.hidden = nn.Sequential(nn.Linear(d_model, d_hidden), nn.GELU(), nn.Linear(d_hidden, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        normed = self.attention_norm(features)
        attended, weights = self.attention(normed, normed)
        features = features + self.dropout(attended)
        return features + self.dropout(self.hidden(self.hidden_norm(features))), weights
