"""FMMformer, M14 (Nguyen et al. 2021): what is near by a band of softmax weights, what is far by kernels of low rank.

§2 of the paper, after the fast multipole method for forces of many bodies.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.blocks import Band
from limelight_models.attention.effective.groups import Parts, Several
from limelight_models.attention.effective.kernel import KernelSums
from limelight_models.attention.score.kernel import elu_plus_one
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class FarField(KernelSums):
    """L_l = φ_l(Q) φ_l(K)ᵀ, each row divided by its sum: φ_1(x) = elu(x) + 1, φ_2(x) = elu(-x) + 1."""

    def __init__(self, sign: int) -> None:
        super().__init__()
        self.sign = sign

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return elu_plus_one(self.sign * query), elu_plus_one(self.sign * key)


class Blended(Several):
    """V̂ = (w_0 D + Σ_l w_l L_l) V, w trained for each head; at first 0 for what is near, as in the authors' code.

    D = softmax(band_k(Q Kᵀ / √d)) and every L_l are its parts; without `near`, the latter alone.

    Shapes: as `Effective`, of so many heads.
    """

    normalised = False
    signed = True

    def __init__(self, *, near: Band | None, far: list[FarField], heads: int) -> None:
        super().__init__(far if near is None else [near, *far])
        begin = torch.tensor([0.0] * (near is not None) + [1 / len(far)] * len(far))
        self.blend = nn.Parameter(begin[:, None, None, None].repeat(1, heads, 1, 1))

    def sums(self, prepared: Parts, value: Tensor) -> Tensor:
        return self.blended([part.sums(one, value) for part, one in zip(self.each, prepared, strict=True)])

    def rows(self, prepared: Parts, index: Tensor) -> Tensor:
        return self.blended(self.rows_of(prepared, index))

    def blended(self, found: list[Tensor]) -> Tensor:
        """Σ_l w_l of what each part found, [batch, head, …]."""
        return (self.blend.unsqueeze(1) * torch.stack(found)).sum(0)


class FMMConfig(LongConfig):
    """Sizes. band: k, how far a key is near, 0 for nothing. kernels: 1 or 2, φ_1 and φ_2."""

    band: int = 20
    kernels: int = 2

    def attention(self) -> Blended:
        near = Band(self.band) if self.band else None
        return Blended(near=near, far=[FarField(sign) for sign in (1, -1)[: self.kernels]], heads=self.heads)


def card(network: LongEncoder, blueprint: Blueprint[FMMConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="FMMformer",
        summary="Classifies a long text by weights of near tokens, blended with kernels for what is far.",
        taxonomy="scaled multiplicative, scoring: generalised kernel, local, alignment: kernel ratio, self-attentive, "
        "multi-head",
        citation="Nguyen, Suliafu, Osher, Chen, Wang (2021): FMMformer: Efficient and Flexible Transformer via "
        "Decomposed Near-field and Far-field Attention. NeurIPS",
        **parts(network, blueprint),
    )


# Of the Long Range Arena (§4.2): 2 layers of 2 heads, two kernels and a band of 5; texts of 4,096 tokens.
PRESETS = presets(
    preset(30, 32, 1e-4, patience=30, vocabulary=512).sized(
        d_model=64, layers=2, heads=2, d_hidden=128, band=5, max_tokens=4096
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(band=2)

FMMFORMER = classifying_texts(FMMConfig, LongEncoder, card, PRESETS, builtin=builtin)
FMMFORMER_ONE = FMMFORMER.changed(kernels=1)
FMMFORMER_FAR = FMMFORMER.changed(band=0)
