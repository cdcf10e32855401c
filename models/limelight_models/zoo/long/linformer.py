"""Linformer, M3 (Wang, Li, Khabsa, Fang & Ma 2020): keys and values are projected along the length, to k of them.

Fig. 2 of the paper. Lengths vary here, where the paper's text has n tokens: of projections for `max_tokens` places a
text takes the first. The matrices are those of all heads of a layer ("headwise sharing", §4).
"""

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.latents import Latents, LatentSums
from limelight_models.attention.errors import ShapeError
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class LinformerAttention(LatentSums):
    """head = softmax(Q (E K)ᵀ / √d) F V (eq. 7);  effective map: softmax(Q (E K)ᵀ / √d) F

    E, F ∈ ℝ^{k × places}, normal with variance 1/k at first (Theorem 1). shared: F is E ("key-value sharing").

    Weights may be negative, and those of a query have any sum. What of padding is projected is zero.

    Shapes: as `LatentSums`, of at most `places` keys.
    """

    normalised, signed = False, True

    def __init__(self, *, places: int, k: int, shared: bool = False) -> None:
        super().__init__()
        self.project_keys = nn.Parameter(torch.randn(k, places) / k**0.5)  # E
        self.project_values = None if shared else nn.Parameter(torch.randn(k, places) / k**0.5)  # F

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Latents:
        of_keys = of_values = self.of_length(self.project_keys, key, mask)
        if self.project_values is not None:
            of_values = self.of_length(self.project_values, key, mask)
        scores = query @ (of_keys @ key).transpose(-2, -1) / query.shape[-1] ** 0.5
        return Latents(scores.softmax(-1), of_values)

    def of_length(self, projection: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        """What of a projection [k, place] is for keys that are there: [batch or 1, 1, k, key]."""
        if not torch.compiler.is_exporting() and key.shape[2] > projection.shape[1]:
            raise ShapeError(f"there are projections of {projection.shape[1]} places, not of {key.shape[2]} keys")
        found = projection[None, None, :, torch.arange(key.shape[2], device=key.device)]
        return found if mask is None else found * mask


class LinformerConfig(LongConfig):
    """Sizes. k: projected keys and values. shared: whether values are projected as keys are."""

    k: int = 64
    shared: bool = False

    def attention(self) -> LinformerAttention:
        return LinformerAttention(places=self.max_tokens, k=self.k, shared=self.shared)


def card(network: LongEncoder, blueprint: Blueprint[LinformerConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Linformer",
        summary="Classifies a long text by attention to a few trained mixtures of its tokens.",
        taxonomy="scaled multiplicative, alignment: low rank, self-attentive, multi-head",
        citation="Wang, Li, Khabsa, Fang, Ma (2020): Linformer: Self-Attention with Linear Complexity. arXiv",
        **parts(network, blueprint),
    )


# Its language model (§5.1) of RoBERTa-base's sizes, 512 tokens and k = 256; it learns to fill in masked words there.
PRESETS = presets(
    preset(3, 32, 1e-4, patience=3, vocabulary=50_000).sized(
        d_model=768, layers=12, heads=12, d_hidden=3072, max_tokens=512, k=256
    )
)

LINFORMER = classifying_texts(LinformerConfig, LongEncoder, card, PRESETS, builtin=builtin)
LINFORMER_SHARED = LINFORMER.changed(shared=True)
