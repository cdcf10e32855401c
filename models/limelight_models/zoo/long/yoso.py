"""YOSO, M13 (Zeng et al. 2021): a weight is the share of random hashes by which query and key are in one bucket.

§3 of the paper. Values are summed by bucket, once for each hash, so that cost is linear in the tokens. Hashes are drawn
once, with the parameters, where the paper draws them anew. What heads return is divided by its length: that depends on
the values, and stands behind the weights as a norm of a layer would; they are those of the sums before it.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from limelight_models.attention.effective.blocks import gathered
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score.similarity import unit
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class Hashed(NamedTuple):
    """Queries and keys of length 1 [batch, head, position, d], and the mask of keys.

    asked, kept: their buckets, INT64 [batch, head, position, hash].
    """

    query: Tensor
    key: Tensor
    asked: Tensor
    kept: Tensor
    mask: Tensor | None


class Sampling(Effective[Hashed]):
    """Σ_j a_ij v_j, a_ij = 1/m Σ_h 1{f_h(q̂_i) = f_h(k̂_j)}, f_h(x) the signs of τ random directions, x̂ = x / ‖x‖.

    E a_ij = (1 - arccos(q̂_iᵀ k̂_j) / π)^τ, which `expected` takes in its place, at a cost that is quadratic.

    In training all weights are formed, for a gradient, which hashes have none of: as in the paper, that of E a_ij with
    its lower bound ∂ a_ij / ∂ (q̂_iᵀ k̂_j) = τ/2 a_ij.

    Shapes: as `Effective`, of d features.
    """

    normalised = False

    def __init__(self, *, d: int, bits: int, hashes: int, expected: bool = False) -> None:
        super().__init__()
        self.bits, self.expected = bits, expected
        self.register_buffer("directions", torch.randn(hashes, bits, d))

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Hashed:
        query, key = unit(query), unit(key)
        return Hashed(query, key, self.buckets(query), self.buckets(key), mask)

    def buckets(self, x: Tensor) -> Tensor:
        """f_h(x) of each hash as a number below 2^τ."""
        directions = self.get_buffer("directions")
        signs = (x @ directions.flatten(0, 1).T).unflatten(-1, directions.shape[:2]) > 0
        return (signs * 2 ** torch.arange(self.bits, device=x.device)).sum(-1)

    def sums(self, prepared: Hashed, value: Tensor) -> Tensor:
        if self.expected or self.training:
            return self.rows(prepared, torch.arange(prepared.query.shape[2], device=value.device)) @ value
        value = value if prepared.mask is None else value * prepared.mask.transpose(-2, -1)
        empty = value.new_zeros(*value.shape[:2], 2**self.bits, value.shape[-1])
        found = torch.zeros_like(prepared.query[..., :1])
        for asked, kept in zip(prepared.asked.unbind(-1), prepared.kept.unbind(-1), strict=True):
            table = empty.scatter_add(2, kept.unsqueeze(-1).expand(-1, -1, -1, value.shape[-1]), value)
            found = found + gathered(table, asked)
        return found / prepared.asked.shape[-1]

    def rows(self, prepared: Hashed, index: Tensor) -> Tensor:
        query, key, asked, kept, mask = prepared
        if self.expected or self.training:
            likeness = query[:, :, index] @ key.transpose(-2, -1)
        if self.expected:
            found = (1 - likeness.detach().clamp(-1, 1).acos() / math.pi) ** self.bits
        else:
            found = torch.zeros_like(query[:, :, index, :1])
            for one, other in zip(asked[:, :, index].unbind(-1), kept.unbind(-1), strict=True):
                found = found + (one.unsqueeze(-1) == other.unsqueeze(-2))
            found = found / kept.shape[-1]
        if self.training:
            found = found * (1 + self.bits / 2 * (likeness - likeness.detach()))
        return found if mask is None else found * mask


class UnitHeads(MultiHead):
    """W_O [Y_1 / ‖Y_1‖; …; Y_H / ‖Y_H‖], token by token. Shapes: as `MultiHead`."""

    def output(self, context_vectors: Tensor, query: Tensor) -> Tensor:
        return self.join(unit(context_vectors))


class YosoConfig(LongConfig):
    """Sizes. bits: τ of a hash. hashes: m. expected: whether weights are what they are on average over all hashes."""

    bits: int = 6
    hashes: int = 8
    expected: bool = False

    def attention(self) -> Sampling:
        return Sampling(d=self.d_head, bits=self.bits, hashes=self.hashes, expected=self.expected)

    def multi_head(self, number: int) -> UnitHeads:
        return UnitHeads(attention=self.attention(), d_model=self.d_model, heads=self.heads)


def card(network: LongEncoder, blueprint: Blueprint[YosoConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="YOSO",
        summary="Classifies a long text by tokens that fall into one bucket of random hashes, in linear time.",
        taxonomy="scoring: similarity, alignment: sampled, self-attentive, multi-head",
        citation="Zeng, Xiong, Ravi, Acharya, Fung, Singh (2021): You Only Sample (Almost) Once: Linear Cost "
        "Self-Attention Via Bernoulli Sampling. ICML",
        **parts(network, blueprint),
    )


# YOSO-32 at BERT's base size: hashes of 8 bits, texts of 512 tokens; it learns to fill in masked words there.
PRESETS = presets(
    preset(3, 32, 1e-4, patience=3, vocabulary=50_000).sized(
        d_model=768, layers=12, heads=12, d_hidden=3072, max_tokens=512, bits=8, hashes=32
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(bits=2, hashes=3)

YOSO = classifying_texts(YosoConfig, LongEncoder, card, PRESETS, builtin=builtin)
YOSO_EXPECTED = YOSO.changed(expected=True)
