"""Mamba-2, T9 (Dao & Gu 2024): a selective state space layer is causal attention whose weights fade, without softmax.

§3 and §5 of the paper: with C as queries, B as keys and x as values, the state of a recurrence and a matrix of weights
give the same. The matrix is the layer's hidden attention (Ali et al. 2024); the layer never forms it.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from limelight_models.attention.effective.recurrence import Decayed, Steps, Tokens
from limelight_models.attention.flat import join_heads, over_keys, split_heads
from limelight_models.attention.weights import AroundAttention, Weights, weights_of
from limelight_models.blocks.short_convolution import ShortConvolution
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets

EPSILON = 1e-5


class StateSpace(Decayed):
    """h_t = exp(Δ_t A) h_{t-1} + Δ_t B_t x_tᵀ,  y_t = C_tᵀ h_t, A < 0 a number a head, Δ = softplus(δ + b) (eq. 2, §5).

    a_ij = C_iᵀ B_j Δ_j Π_{l=j+1}^{i} exp(Δ_l A)

    selective: whether δ is the token's; else all tokens fade alike.

    Shapes: as `Decayed`; query C, key [B; δ], value x.
    """

    def __init__(self, *, heads: int, selective: bool = True) -> None:
        super().__init__()
        self.selective, self.steps = selective, Steps(heads=heads)

    def tokens(self, query: Tensor, key: Tensor) -> Tokens:
        own = key[..., -1:] if self.selective else torch.zeros_like(key[..., -1:])
        return Tokens(query, key[..., :-1], *self.steps(own))


class Mixer(AroundAttention, nn.Module):
    """The block of Fig. 6, right: W_o norm(y ⊙ silu(z)), y = SSD(x, Δ, A, B, C) + D x, where x, B, C are convolved.

    B and C are those of all heads (§7.2, multi-value attention).

    Shapes: features u [batch, token, d_model], mask [batch, 1, 1, token] -> the same, weights [batch, head, token,
        token].
    """

    deciding = ("b_map", "c_map", "step_map")

    def __init__(self, *, d_model: int, heads: int, d_head: int, d_state: int, selective: bool) -> None:
        super().__init__()
        self.heads, inner = heads, heads * d_head
        self.z_map = nn.Linear(d_model, inner, bias=False)
        self.x_map, self.b_map, self.c_map = (
            nn.Sequential(nn.Linear(d_model, size, bias=False), ShortConvolution(size))
            for size in (inner, d_state, d_state)
        )
        self.step_map = nn.Linear(d_model, heads, bias=False)
        self.attention = StateSpace(heads=heads, selective=selective)
        self.skip = nn.Parameter(torch.ones(heads))
        self.norm = nn.RMSNorm(inner, EPSILON)
        self.merge = nn.Linear(inner, d_model, bias=False)

    @property
    def makes(self) -> tuple[Weights, ...]:
        return tuple(replace(each, heads=self.heads) for each in weights_of(self.attention))

    def forward(self, u: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x = split_heads(self.x_map(u), self.heads)
        b, c = (each(u).unsqueeze(1).expand(-1, self.heads, -1, -1) for each in (self.b_map, self.c_map))
        step = split_heads(self.step_map(u), self.heads)
        y, weights = self.attention(c, torch.cat([b, step], -1), x, mask)
        y = join_heads(y + self.skip.unsqueeze(-1).unsqueeze(-1) * x)
        return self.merge(self.norm(y * silu(self.z_map(u)))), weights


class Layer(AroundAttention, nn.Module):
    """u + mixer(norm(u)).

    Shapes: as `Mixer`, mask bool [batch, token] too.
    """

    def __init__(self, mixer: Mixer, *, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.attention, self.dropout = nn.RMSNorm(d_model, EPSILON), mixer, nn.Dropout(dropout)

    def forward(self, u: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mixed, weights = self.attention(self.norm(u), over_keys(mask))
        return u + self.dropout(mixed), weights


class MambaConfig(LongConfig):
    """Sizes; heads are those of twice d_model features. selective: whether each token says what fades (§2.1)."""

    placed = False
    d_state: int = 32
    selective: bool = True

    def layer(self, number: int) -> Layer:
        mixer = Mixer(
            d_model=self.d_model,
            heads=self.heads,
            d_head=2 * self.d_head,
            d_state=self.d_state,
            selective=self.selective,
        )
        return Layer(mixer, d_model=self.d_model, dropout=self.dropout)


def card(network: LongEncoder, blueprint: Blueprint[MambaConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Mamba-2",
        summary="Classifies a long text by states that fade as each token says, which comes to causal attention.",
        taxonomy="multiplicative, alignment: decay, self-attentive, multi-head",
        citation="Dao, Gu (2024): Transformers are SSMs: Generalized Models and Efficient Algorithms Through "
        "Structured State Space Duality. ICML",
        **parts(network, blueprint),
    )


# Its smallest language model: 24 layers of 24 heads of 64 features, states of 128. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 3e-3, patience=2, vocabulary=8000).sized(d_model=768, layers=24, heads=24, d_state=128)
)

MAMBA_2 = classifying_texts(MambaConfig, LongEncoder, card, PRESETS, builtin=builtin)
MAMBA_2_FIXED = MAMBA_2.changed(selective=False)
