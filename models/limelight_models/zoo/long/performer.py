"""Performer, M5 (Choromanski et al. 2021): FAVOR+, random features whose products estimate the softmax's exponentials.

Algorithm 1 of the paper: features of queries and keys (§2.3, positive; §2.4, orthogonal), then sums over keys. Features
are drawn once, with the parameters; the paper may draw them anew while it trains.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.kernel import KernelSums
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


def gaussian(count: int, d: int) -> Tensor:
    """Directions [count, d], standard normal, each by itself."""
    return torch.randn(count, d)


def orthogonal(count: int, d: int) -> Tensor:
    """Directions [count, d], each standard normal, those of a block of d orthogonal to each other (§2.4)."""
    blocks = [nn.init.orthogonal_(torch.empty(d, d)) for _ in range(0, count, d)]
    return torch.cat(blocks)[:count] * gaussian(count, d).norm(dim=-1, keepdim=True)


class Favor(KernelSums):
    """FAVOR+: κ(q, k) = φ(q)ᵀ φ(k), whose mean is exp(qᵀ k / √d) (Lemma 1, eq. 5 to 7).

    φ(x) = exp(-‖x̃‖² / 2) / √m [exp(ω_1ᵀ x̃); …; exp(ω_mᵀ x̃)], x̃ = x / d^¼
    trigonometric: φ(x) = exp(‖x̃‖² / 2) / √m [sin(ω_1ᵀ x̃); …; cos(ω_1ᵀ x̃); …], which may be negative

    As no factor of a query changes its weights, exponents of a query are counted from its largest, without ‖q̃‖². Those
    of a feature of all keys are, too, and their largest goes to the query, so that no sum underflows. Causal sums leave
    keys as they are, for the largest of all is not known at a token: in single precision keys vanish whose ‖k̃‖² is in
    the hundreds, and none overflows, as exponents are at most ‖ω‖² / 2, about d / 2, and there is room for 88.

    Shapes: as `KernelSums`; m is `features`, twice that if trigonometric.
    """

    def __init__(
        self, *, d: int, features: int, independent: bool = False, trigonometric: bool = False, causal: bool = False
    ) -> None:
        super().__init__(causal=causal)
        self.trigonometric = self.signed = trigonometric
        self.register_buffer("directions", gaussian(features, d) if independent else orthogonal(features, d))

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        query, key = (x * x.shape[-1] ** -0.25 for x in (query, key))
        asked, kept = (x @ self.get_buffer("directions").T for x in (query, key))
        half = key.square().sum(-1, keepdim=True) / 2
        exponents = half if self.trigonometric else kept - half
        if mask is not None:
            exponents = exponents.masked_fill(~mask, torch.finfo(exponents.dtype).min)
        largest = torch.zeros_like(exponents[:, :, :1]) if self.causal else exponents.amax(2, keepdim=True)
        raised = (exponents - largest).exp()
        if self.trigonometric:
            return torch.cat([asked.sin(), asked.cos()], -1), torch.cat([kept.sin(), kept.cos()], -1) * raised
        asked = asked + largest
        return (asked - asked.amax(-1, keepdim=True)).exp(), raised


class PerformerConfig(LongConfig):
    """Sizes. features: random ones of a head. causal: whether a token looks at those before it alone (Appendix B.1).

    independent, trigonometric: without an idea of the paper, features that are orthogonal, or positive.
    """

    features: int = 64
    causal: bool = False
    independent: bool = False
    trigonometric: bool = False

    def attention(self) -> Favor:
        return Favor(
            d=self.d_head,
            features=self.features,
            independent=self.independent,
            trigonometric=self.trigonometric,
            causal=self.causal,
        )


def card(network: LongEncoder, blueprint: Blueprint[PerformerConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Performer",
        summary="Classifies a long text by an estimate of softmax attention whose cost is linear in the tokens.",
        taxonomy="scoring: generalised kernel, self-attentive, multi-head",
        citation="Choromanski, Likhosherstov, Dohan, Song, Gane, Sarlos, Hawkins, Davis, Mohiuddin, Kaiser, Belanger, "
        "Colwell, Weller (2021): Rethinking Attention with Performers. ICLR",
        **parts(network, blueprint),
    )


# Its network of proteins (§4.3): 36 layers of 8 heads. What it leaves out is as usual.
PRESETS = presets(
    preset(20, 16, 1e-3, patience=4, vocabulary=8000).sized(
        d_model=512, layers=36, heads=8, d_hidden=1024, features=256
    )
)

PERFORMER = classifying_texts(PerformerConfig, LongEncoder, card, PRESETS, builtin=builtin)
PERFORMER_CAUSAL = PERFORMER.changed(causal=True)
PERFORMER_INDEPENDENT = PERFORMER.changed(independent=True)
PERFORMER_TRIGONOMETRIC = PERFORMER.changed(trigonometric=True)
