"""Attention with sinks and windows, T7 (Xiao et al. 2023; OpenAI 2025): a row may give its weight to nothing.

§3.3 of the paper, with a number a head that is learned, in the place of a token that is; and every second layer looks
at the last tokens alone, as in gpt-oss, whose rotary positions are sines here.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.alignment import Align, both, fill, keep
from limelight_models.attention.context import Context
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class Sinks(Align):
    """a_l = exp(e_l) / (exp(s_h) + Σ_j exp(e_j)), over the last `window` keys, or all (window 0).

    s begins at 0. sinks: whether it is there; else this is softmax.

    Shapes: scores [..., head, query, key] -> weights of the same shape, whose sums are at most 1.
    """

    normalised = False
    shift_invariant = False
    key_order = True

    def __init__(self, *, heads: int, window: int, sinks: bool = True) -> None:
        super().__init__()
        self.window, self.normalised = window, not sinks
        self.sink = nn.Parameter(torch.zeros(heads, 1, 1)) if sinks else None

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        if self.window:
            query, key = context.positions(scores)
            mask = both(mask, query - key < self.window)
        filled = fill(scores, mask)
        if self.sink is None:
            return keep(filled.softmax(-1), mask)
        beside = self.sink + torch.zeros_like(filled[..., :1])
        return keep(torch.cat([filled, beside], -1).softmax(-1)[..., :-1], mask)


class SinksConfig(LongConfig):
    """Sizes. window: tokens that layers 0, 2, … look at; 0 for all. sinks: whether heads have them."""

    looks_back = True
    window: int = 32
    sinks: bool = True

    def multi_head(self, number: int) -> MultiHead:
        align = Sinks(heads=self.heads, window=self.window * (number % 2 == 0), sinks=self.sinks)
        return MultiHead(attention=Attention(score=ScaledDot(), align=align), d_model=self.d_model, heads=self.heads)


def card(network: LongEncoder, blueprint: Blueprint[SinksConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Attention with sinks",
        summary="Classifies a long text by heads that may look at nothing, in every second layer at the last tokens.",
        taxonomy="scaled multiplicative, local, self-attentive, multi-head",
        citation="Xiao, Tian, Chen, Han, Lewis (2023): Efficient Streaming Language Models with Attention Sinks. ICLR",
        **parts(network, blueprint),
    )


# gpt-oss-20b: 24 layers of 64 heads of 45 features here, windows of 128. What it leaves out is as usual.
PAPER = preset(10, 32, 3e-4, patience=2, vocabulary=8000)
PRESETS = presets(PAPER.sized(d_model=2880, layers=24, heads=64, d_hidden=2880, window=128))
PRESETS["tiny"] = PRESETS["tiny"].sized(window=2)

SINKS = classifying_texts(SinksConfig, LongEncoder, card, PRESETS, builtin=builtin)
SINKS_SOFTMAX = SINKS.changed(sinks=False)
SINKS_WHOLE = SINKS.changed(window=0)
