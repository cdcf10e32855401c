"""Reinforced self-attention: among the tokens that samplers have chosen."""

from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.functional import elu

from limelight_models.attention import Attention, masks
from limelight_models.attention.combine import FusionGate
from limelight_models.attention.dimensionality.token import SourceToToken, TokenToToken
from limelight_models.attention.flat import attend
from limelight_models.attention.queries.pool import SelfAttentivePool


class Chosen(NamedTuple):
    """Which tokens look, and which are looked at: bool [batch, token] both."""

    heads: Tensor
    dependents: Tensor


class ReinforcedSelfAttention(nn.Module):
    """Self-attention among the tokens that are chosen, and the sentence as one vector (Shen et al. 2018b, §4).

    h = elu(W x + b);  s_i = Σ_j softmax_j(5 · tanh((W₁ h_j + W₂ h_i + b) / 5) + M_ij) ⊙ h_j, M_ij = 0 where i is a
    chosen head, j a chosen dependent, and i ≠ j, else -∞
    u_i = F_i ⊙ h_i + (1 - F_i) ⊙ s_i, F a gate;  v = Σ_i softmax_i(W' elu(W u_i + b) + b') ⊙ u_i

    Shapes: features [batch, token, d], mask bool [batch, token], chosen -> vector [batch, d], weights [batch, 1, token,
        token, d], zeros where nothing is chosen, and [batch, 1, 1, token, d].
    """

    def __init__(self, *, d: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Linear(d, d)
        self.attention = Attention(score=TokenToToken(d_q=d, d_k=d, d_v=d), combine=FusionGate(d=d))
        self.source = SelfAttentivePool(attention=Attention(score=SourceToToken(d_k=d, d_w=d, d_v=d)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, mask: Tensor, chosen: Chosen) -> tuple[Tensor, Tensor, Tensor]:
        hidden = elu(self.hidden(features))
        others = masks.diagonal_disabled.build(query=mask.shape[1], key=mask.shape[1], device=mask.device)
        allowed = others & chosen.heads[:, None, :, None] & chosen.dependents[:, None, None, :]
        fused, around = attend(self.attention, hidden, hidden, None, allowed)
        vector, counts = self.source(self.dropout(fused), mask=mask)
        return vector, around, counts
