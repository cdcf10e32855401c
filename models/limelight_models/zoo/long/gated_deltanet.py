"""Gated DeltaNet, T4 (Yang et al. 2024): a state that fades, and that forgets what stood under a key when that is set.

§3 of the paper: the delta rule takes one association away and leaves the others, a gate lets all of them fade; here
both. Weights that this comes to are signed. With a gate of each feature it is Kimi delta attention (Kimi Team 2025),
whose maps of gates have a low rank, and whose gate of the output is a sigmoid, which they are not here.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, silu

from limelight_models.attention.effective.recurrence import Delta, Steps, Tokens
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.blocks.short_convolution import ShortConvolution
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class GatedDelta(Delta):
    """S_t = α_t (I - β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ,  o_t = S_tᵀ q_t (eq. 10, with S turned).

    β = sigmoid(b), α = exp(-exp(A) softplus(a + c)), A and c of each head, as in Mamba-2. decays: how many a a token
    has, 0 for α = 1 (DeltaNet, Schlag et al. 2021; Yang et al. 2024b), 1, or one a feature of keys.

    Shapes: as `Delta`; query [batch, head, token, d_k], key [k; b; a].
    """

    def __init__(self, *, heads: int, decays: int) -> None:
        super().__init__()
        self.steps = Steps(heads=heads, features=decays) if decays else None

    def tokens(self, query: Tensor, key: Tensor) -> Tokens:
        d_k = query.shape[-1]
        strength = key[..., d_k : d_k + 1].sigmoid()
        decay = torch.zeros_like(strength) if self.steps is None else self.steps(key[..., d_k + 1 :])[1]
        return Tokens(query, key[..., :d_k], strength, decay)


class Mixer(MultiHead):
    """The block of Fig. 1, right: W_o (norm(o) ⊙ silu(W_g x)), where q, k, v are convolved, q and k of length 1.

    Shapes: as `MultiHead` of features that attend to themselves.
    """

    def __init__(self, *, d_model: int, heads: int, decays: int) -> None:
        super().__init__(attention=GatedDelta(heads=heads, decays=decays), d_model=d_model, heads=heads, bias=False)
        self.query_map, self.key_map, self.value_map = (  # type: ignore[assignment]
            nn.Sequential(each, ShortConvolution(d_model)) for each in (self.query_map, self.key_map, self.value_map)
        )
        self.gate_map = nn.Linear(d_model, heads * (1 + decays), bias=False)
        self.output_map = nn.Linear(d_model, d_model, bias=False)
        self.norm = nn.RMSNorm(d_model // heads, 1e-5)

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q / √d_k, [k; b; a] and v."""
        q, k, v = super().project(query, key, value)
        gates = self.split(self.gate_map(key))
        return normalize(q, dim=-1) * q.shape[-1] ** -0.5, torch.cat([normalize(k, dim=-1), gates], -1), v

    def output(self, context_vectors: Tensor, query: Tensor) -> Tensor:
        return self.join(self.norm(context_vectors) * silu(self.split(self.output_map(query))))


class DeltaConfig(LongConfig):
    """Sizes. gated: whether the state fades. by_feature: whether each feature of keys fades by itself."""

    placed = False
    gated: bool = True
    by_feature: bool = False

    def multi_head(self, number: int) -> Mixer:
        decays = self.gated * (self.d_head if self.by_feature else 1)
        return Mixer(d_model=self.d_model, heads=self.heads, decays=decays)


def card(network: LongEncoder, blueprint: Blueprint[DeltaConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Gated DeltaNet",
        summary="Classifies a long text by states that fade, and in which a token replaces what its key stood for.",
        taxonomy="multiplicative, alignment: gated delta rule, self-attentive, multi-head",
        citation="Yang, Kautz, Hatamizadeh (2024): Gated Delta Networks: Improving Mamba2 with Delta Rule. ICLR",
        **parts(network, blueprint),
    )


# Its model of 1.3 billion parameters; heads of 128 features as ever. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 4e-4, patience=2, vocabulary=8000).sized(d_model=2048, layers=24, heads=16, d_hidden=5632)
)

GATED_DELTANET = classifying_texts(DeltaConfig, LongEncoder, card, PRESETS, builtin=builtin)
GATED_DELTANET_UNGATED = GATED_DELTANET.changed(gated=False)
GATED_DELTANET_KIMI = GATED_DELTANET.changed(by_feature=True)
