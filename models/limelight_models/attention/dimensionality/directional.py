"""Directional self-attention (DiSA): multi-dimensional, masked by direction, gated (D2)."""

from torch import Tensor, nn
from torch.nn.functional import elu

from limelight_models.attention import masks
from limelight_models.attention.combine import FusionGate
from limelight_models.attention.core import Attention
from limelight_models.attention.dimensionality.token import TokenToToken
from limelight_models.attention.errors import require_axes
from limelight_models.attention.flat import attend
from limelight_models.attention.masks import Mask
from limelight_models.attention.score.pairwise import Activation
from limelight_models.attention.weights import AroundAttention


class DirectionalSelfAttention(AroundAttention, nn.Module):
    """One direction of DiSAN (Shen et al. 2018a, eq. 14–20; survey S §5.1).

    h = act(W x + b);  s_j = Σ_i softmax_i(5 · tanh((W₁ h_i + W₂ h_j + b) / 5) + M_ij) ⊙ h_i
    F = sigmoid(W_s s + W_h h + b);  u = F ⊙ h + (1 - F) ⊙ s

    M is `masks.forward` or `masks.backward`. A token with nothing to attend to (the first or the last) has s = 0 and
    keeps the gated part of its own features.

    Shapes: features [batch, position, d_f], mask [batch, position]
        -> features [batch, position, d], weights [batch, 1, query, key, d].
    """

    def __init__(self, *, d_f: int, d: int, direction: Mask, act: Activation = elu) -> None:
        super().__init__()
        self.direction, self.act = direction, act
        self.hidden = nn.Linear(d_f, d)
        self.attention = Attention(score=TokenToToken(d_q=d, d_k=d, d_v=d), combine=FusionGate(d=d))

    def forward(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        require_axes(features, "features", "batch, position, d_f")
        hidden = self.act(self.hidden(features))
        valid = masks.everything if mask is None else masks.valid(mask)
        length = features.shape[1]
        allowed = (self.direction & valid).build(query=length, key=length, device=features.device)
        return attend(self.attention, hidden, hidden, None, allowed)
