"""Skyformer, M11 (Chen, Zeng, Ji & Yang 2021): a Gaussian kernel, by the method of Nyström over queries and keys.

§4 of the paper. The kernel of all queries and keys together is positive, so that the method holds; the block of queries
by keys weighs the values. The paper draws landmarks from both; here they are evenly spaced, so that an answer is one.
"""

import torch
from torch import Tensor

from limelight_models.attention.effective.latents import Latents, LatentSums, gaussian, pseudo_inverse, segment_means
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets

_RIDGE = 0.1  # γ; the paper gives no number, a public reimplementation this one


class SkyAttention(LatentSums):
    """κ(Q, L) D^{-½} Z* D^{-½} κ(L, K) V, L landmarks of [Q; K], κ(x, y) = exp(-‖x - y‖² / 2√d) (§4).

    Z* is an inverse of D^{-½} M D^{-½}, M = κ(L, L) + γ I, D = diag(M 1), found as Nyströmformer's.
    landmarks: their number, half of queries and half of keys: the first of each segment.

    Shapes: as `LatentSums`, of as many queries as keys.
    """

    normalised, signed = False, True

    def __init__(self, *, landmarks: int) -> None:
        super().__init__()
        self.landmarks = landmarks

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Latents:
        inside = segment_means(query, key, mask, self.landmarks // 2) > 0
        first = (inside & (inside.cumsum(-1) == 1)).to(query.dtype)
        landmarks = torch.cat([first @ query, first @ key], 2)
        there = torch.cat([inside, inside], 2).any(-1, keepdim=True)
        one = torch.eye(landmarks.shape[2], dtype=query.dtype, device=query.device)
        among = gaussian(landmarks, landmarks) * there * there.transpose(-2, -1) + _RIDGE * one
        root = among.sum(-1, keepdim=True).sqrt()
        inverse = pseudo_inverse(among / root / root.transpose(-2, -1)) / root / root.transpose(-2, -1)
        inward = gaussian(landmarks, key) * (there if mask is None else there & mask)
        return Latents(gaussian(query, landmarks) @ inverse, inward)


class SkyConfig(LongConfig):
    """Sizes. landmarks: an even number, half of queries and half of keys."""

    landmarks: int = 128

    def attention(self) -> SkyAttention:
        return SkyAttention(landmarks=self.landmarks)


def card(network: LongEncoder, blueprint: Blueprint[SkyConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Skyformer",
        summary="Classifies a long text by a Gaussian kernel of queries and keys, estimated from landmarks of both.",
        taxonomy="scoring: similarity, alignment: low rank, self-attentive, multi-head",
        citation="Chen, Zeng, Ji, Yang (2021): Skyformer: Remodel Self-Attention with Gaussian Kernel and Nyström "
        "Method. NeurIPS",
        **parts(network, blueprint),
    )


# Its model of the tasks of long texts (§5): two layers of two heads, 128 landmarks.
PRESETS = presets(
    preset(20, 32, 1e-4, patience=20, vocabulary=300).sized(d_model=64, layers=2, heads=2, d_hidden=128, dropout=0.1)
)

SKYFORMER = classifying_texts(SkyConfig, LongEncoder, card, PRESETS, builtin=builtin)
