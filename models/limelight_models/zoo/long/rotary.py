"""Rotary positions and grouped queries, T6 (Su et al. 2021; Ainslie et al. 2023), and their alternatives.

Scores of today's decoders: queries and keys are turned by their places, so that products depend on distances alone;
or a slope times the distance is taken away (ALiBi, Press et al. 2021), or nothing tells of places but the mask that
looks back (NoPE, Kazemnejad et al. 2023). Groups of heads share keys and values. Weights are a matrix as ever.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.flat import split_heads
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.scoring import Score
from limelight_models.blocks.transformer import turned
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class LinearBias(Score):
    """e_ij = q_iᵀ k_j / √d - m_h (i - j), m_h = 2^(-8 h / H), h = 1 … H (Press et al. 2021, §3).

    Shapes: query, key [batch, head, position, d] -> scores [batch, head, query, key].
    """

    needs_equal_sizes = True
    key_order = True
    slopes: Tensor

    def __init__(self, *, heads: int) -> None:
        super().__init__()
        slopes = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes", slopes.reshape(-1, 1, 1), persistent=False)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        i, j = context.positions(scores)
        return scores - self.slopes * (i - j)


class GroupedHeads(MultiHead):
    """Head h reads the keys and values of group ⌊h G / H⌋ (Ainslie et al. 2023, §2.2). rotary: whether places turn.

    Shapes: as `MultiHead` of features that attend to themselves.
    """

    def __init__(self, *, score: Score, d_model: int, heads: int, groups: int, rotary: bool) -> None:
        super().__init__(attention=Attention(score=score), d_model=d_model, heads=heads, bias=False)
        self.groups, self.rotary = groups, rotary
        self.key_map, self.value_map = (nn.Linear(d_model, d_model // heads * groups, bias=False) for _ in range(2))

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """R q, R k and v, those of a group for each of its heads."""
        q, k = self.split(self.query_map(query)), split_heads(self.key_map(key), self.groups)
        v = split_heads(self.value_map(key if value is None else value), self.groups)
        if self.rotary:
            position = torch.arange(query.shape[1], device=query.device)
            q, k = turned(q, position), turned(k, position)
        k, v = (each.repeat_interleave(self.heads // self.groups, 1) for each in (k, v))
        return q, k, v


class RotaryConfig(LongConfig):
    """Sizes. groups: of heads that share keys. positions: `rotary`, `bias` or `none`."""

    placed, looks_back = False, True
    groups: int = 2
    positions: str = "rotary"

    def multi_head(self, number: int) -> GroupedHeads:
        score = LinearBias(heads=self.heads) if self.positions == "bias" else ScaledDot()
        rotary = self.positions == "rotary"
        return GroupedHeads(score=score, d_model=self.d_model, heads=self.heads, groups=self.groups, rotary=rotary)


def card(network: LongEncoder, blueprint: Blueprint[RotaryConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="RoFormer",
        summary="Classifies a long text by scores that depend on distances, in heads that share keys.",
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Su, Lu, Pan, Murtadha, Wen, Liu (2021): RoFormer: Enhanced Transformer with Rotary Position "
        "Embedding. Neurocomputing",
        **parts(network, blueprint),
    )


# RoFormer's sizes are BERT's; its heads share nothing. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 1e-4, patience=2, vocabulary=8000).sized(d_model=768, layers=12, heads=12, d_hidden=3072, groups=12)
)
PRESETS["tiny"] = PRESETS["tiny"].sized(groups=1)

ROTARY = classifying_texts(RotaryConfig, LongEncoder, card, PRESETS, builtin=builtin)
ROTARY_BIAS, ROTARY_NONE = (ROTARY.changed(positions=each) for each in ("bias", "none"))
