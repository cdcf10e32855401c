"""Nyströmformer, M11 (Xiong et al. 2021): softmax's matrix from those of a few landmarks, by the method of Nyström.

Fig. 2 of the paper. Landmarks are means of segments. Lengths vary here, where the paper pads to a multiple of
the number of landmarks: a text's own tokens make the segments, and one of fewer tokens has as many landmarks as tokens.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from limelight_models.attention.alignment import softmax
from limelight_models.attention.effective.latents import Latents, LatentSums, pseudo_inverse, segment_means
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class NystromAttention(LatentSums):
    """softmax(Q K̃ᵀ / √d) Z* softmax(Q̃ Kᵀ / √d) V (§3), and a convolution of V beside it (Fig. 2).

    Z* is a pseudo-inverse of softmax(Q̃ K̃ᵀ / √d), of landmarks Q̃, K̃. kernel: places of the convolution, an odd number,
    whose weights are those of a head (0 for none). It is a sum of values too: the effective map has its weights.

    Shapes: as `LatentSums`, of as many queries as keys.
    """

    normalised, signed = False, True

    def __init__(self, *, heads: int, landmarks: int, kernel: int = 0) -> None:
        super().__init__()
        self.landmarks, self.reach = landmarks, kernel // 2
        self.skip = nn.Parameter((2 * torch.rand(heads, kernel) - 1) / kernel**0.5) if kernel else None

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Latents:
        means = segment_means(query, key, mask, self.landmarks)
        there = (means.sum(-1) > 0).unsqueeze(-2)
        query, key = (each / query.shape[-1] ** 0.25 for each in (query, key))
        queries, keys = means @ query, (means @ key).transpose(-2, -1)
        among = softmax(queries @ keys, there) * there.transpose(-2, -1)
        inward = softmax(queries @ key.transpose(-2, -1), mask) * there.transpose(-2, -1)
        return Latents(softmax(query @ keys, there) @ pseudo_inverse(among), inward, mask)

    def sums(self, prepared: Latents, value: Tensor) -> Tensor:
        found = super().sums(prepared, value)
        if self.skip is None:
            return found
        value = value if prepared.mask is None else value * prepared.mask.transpose(-2, -1)
        filters = self.skip[:, None, :, None]
        return found + F.conv2d(value, filters, padding=(self.reach, 0), groups=filters.shape[0])

    def rows(self, prepared: Latents, index: Tensor) -> Tensor:
        found = super().rows(prepared, index)
        if self.skip is None:
            return found
        away = torch.arange(found.shape[-1], device=index.device) - index.unsqueeze(-1)
        near = away.abs() <= self.reach if prepared.mask is None else (away.abs() <= self.reach) & prepared.mask
        return found + self.skip[:, away.clamp(-self.reach, self.reach) + self.reach] * near


class NystromConfig(LongConfig):
    """Sizes. landmarks: segments of a text. kernel: places of the convolution of values; 0 for none."""

    landmarks: int = 64
    kernel: int = 33

    def attention(self) -> NystromAttention:
        return NystromAttention(heads=self.heads, landmarks=self.landmarks, kernel=self.kernel)


def card(network: LongEncoder, blueprint: Blueprint[NystromConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Nyströmformer",
        summary="Classifies a long text by softmax attention that is estimated from landmarks of its tokens.",
        taxonomy="scaled multiplicative, alignment: low rank, self-attentive, multi-head",
        citation="Xiong, Zeng, Chakraborty, Tan, Fung, Li, Singh (2021): Nyströmformer: A Nyström-Based Algorithm for "
        "Approximating Self-Attention. AAAI",
        **parts(network, blueprint),
    )


# Its model of the size of BERT-base, with 64 landmarks of 512 tokens (§4.1); it learns to fill in masked words there.
PRESETS = presets(
    preset(3, 256, 1e-4, patience=3, vocabulary=30_000).sized(
        d_model=768, layers=12, heads=12, d_hidden=3072, max_tokens=512
    )
)

NYSTROMFORMER = classifying_texts(NystromConfig, LongEncoder, card, PRESETS, builtin=builtin)
# Without the convolution, which is not part of the method.
NYSTROMFORMER_PLAIN = NYSTROMFORMER.changed(kernel=0)
