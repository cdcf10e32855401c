"""Random feature attention, M10 (Peng et al. 2021): sines and cosines whose products estimate a Gaussian kernel.

§3.1 of the paper: the kernel of queries and keys of length 1 is the softmax's; §3.2: in causal attention a gate lets
what was summed fade, as a recurrent network's.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import log_sigmoid
from limelight_models.attention.effective.kernel import CHUNK, Features, KernelSums, Sums
from limelight_models.attention.queries.gated_keys import GatedKeys
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score.similarity import unit
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets

SMALLEST = 0.01  # sum of kernel values that context vectors are divided by


class RandomFeatureAttention(KernelSums):
    """RFA: κ(q, k) = φ(q)ᵀ φ(k), whose mean is exp(-‖σ ∘ (q̂ - k̂)‖² / 2), x̂ = x / ‖x‖ (eq. 4 and 5).

    φ(x) = [sin(w_1ᵀ x̂); …; sin(w_Dᵀ x̂); cos(w_1ᵀ x̂); …; cos(w_Dᵀ x̂)] / √D, w_i = σ ∘ w̃_i, w̃_i drawn, σ learned

    For one σ in all directions that is exp(σ² q̂ᵀ k̂) but for a factor, which the division cancels. As a sum of kernel
    values may come out near 0, or negative, what is divided by is its size, 0.01 at least, as in the authors' code.

    Shapes: as `KernelSums`; m = 2 D.
    """

    normalised = False
    signed = True

    def __init__(self, *, d: int, heads: int, features: int, causal: bool = False, chunk: int = CHUNK) -> None:
        super().__init__(causal=causal, chunk=chunk)
        self.spread = nn.Parameter(torch.ones(heads, 1, d))
        self.register_buffer("directions", torch.randn(features, d))

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        directions = self.get_buffer("directions") * self.spread  # [head, D, d]
        asked, kept = (unit(x[..., : directions.shape[-1]]) @ directions.transpose(-2, -1) for x in (query, key))
        scale = directions.shape[1] ** -0.5
        asked, kept = (scale * torch.cat([angles.sin(), angles.cos()], -1) for angles in (asked, kept))
        return asked, kept

    def divided(self, found: Tensor, total: Tensor) -> Tensor:
        return found / total.abs().clamp(min=SMALLEST)


class GatedRandomFeatureAttention(RandomFeatureAttention):
    """RFA-Gate: S_t = g_t S_{t-1} + (1 - g_t) φ(k_t) v_tᵀ, z_t likewise, g_t = sigmoid(what a key's last feature says).

    Effective weights: a_tj ∝ φ(q_t)ᵀ φ(k_j) (1 - g_j) Π_{j < l ≤ t} g_l (eq. 7 and 8)

    Shapes: as `KernelSums`; key [batch, head, key, d + 1], of a query the first d features are read.
    """

    def __init__(self, *, d: int, heads: int, features: int, chunk: int = CHUNK) -> None:
        super().__init__(d=d, heads=heads, features=features, causal=True, chunk=chunk)

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        asked, kept = super().features(query, key, mask)
        return asked, kept * (-key[..., -1:]).sigmoid()

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Features:
        return super().prepare(query, key, mask)._replace(fading=log_sigmoid(key[..., -1]))

    def step(self, query: Tensor, key: Tensor, value: Tensor, before: Sums | None = None) -> tuple[Tensor, Sums]:
        gate = key[..., -1:].sigmoid()
        return super().step(query, key, value, before and Sums(*(gate * each for each in before)))


class RandomFeatureConfig(LongConfig):
    """Sizes. features: D, random directions of a head. causal: whether a token looks at those before it alone.

    gated: causal, with a gate that lets older tokens fade.
    """

    features: int = 64
    causal: bool = False
    gated: bool = False

    def attention(self) -> RandomFeatureAttention:
        return RandomFeatureAttention(d=self.d_head, heads=self.heads, features=self.features, causal=self.causal)

    def multi_head(self, number: int) -> MultiHead:
        if not self.gated:
            return super().multi_head(number)
        attention = GatedRandomFeatureAttention(d=self.d_head, heads=self.heads, features=self.features)
        return GatedKeys(attention, d_model=self.d_model, heads=self.heads)


def card(network: LongEncoder, blueprint: Blueprint[RandomFeatureConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Random feature attention",
        summary="Classifies a long text by sums of sines and cosines that estimate a softmax, linear in the tokens.",
        taxonomy="scoring: generalised kernel, alignment: kernel ratio, self-attentive, multi-head",
        citation="Peng, Pappas, Yogatama, Schwartz, Smith, Kong (2021): Random Feature Attention. ICLR",
        **parts(network, blueprint),
    )


# The base size of its translation (§4.2): 6 layers of 8 heads of 64 features. What it leaves out is as usual.
PRESETS = presets(
    preset(20, 32, 5e-4, patience=4, vocabulary=32_000).sized(d_model=512, layers=6, heads=8, d_hidden=2048)
)

RANDOM_FEATURES = classifying_texts(RandomFeatureConfig, LongEncoder, card, PRESETS, builtin=builtin)
RANDOM_FEATURES_CAUSAL = RANDOM_FEATURES.changed(causal=True)
RANDOM_FEATURES_GATED = RANDOM_FEATURES.changed(gated=True)
