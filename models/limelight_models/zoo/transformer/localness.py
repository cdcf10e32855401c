"""Localness, R1 (Yang, Tu, Wong, Meng, Chao & Zhang 2018): a Gaussian around a place that each query predicts.

The Transformer, whose encoder adds a term to its scores: it is 0 at a centre that the query says, and falls as fast as
a width allows, which the query says too, or the layer, or nobody. The paper finds it best in the lower layers; here it
is in all, with a centre and a width for each head.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.alignment import in_single, whole
from limelight_models.attention.context import Context
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.scoring import Score
from limelight_models.recipes import Blueprint, Card
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.transformer.encoder_decoder import PRESETS, EncoderDecoder, EncoderDecoderConfig, parts

_FIXED = 10.0  # words of a window that nobody predicts, as the paper's
_LEAST = 1e-3  # words of the narrowest window


class Localness(Score):
    """Scaled dot products of one head, and how far a key is from what its query predicts (§3.2, 3.3).

    e_ij = q_iᵀ k_j / √d + G_ij;  G_ij = -(j - P_i)² / (2 σ_i²), σ_i = D_i / 2
    P_i = I sigmoid(U_pᵀ tanh(W_p q_i)), I keys;  D_i = I sigmoid(U_dᵀ tanh(W_p q_i)) (window `query`)
    D = I sigmoid(U_dᵀ tanh(W_d k̄)), k̄ the mean of the keys (window `layer`);  D = 10 (window `fixed`)

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key].
    """

    needs_equal_sizes = True
    key_order = True
    context_fields = ("key_positions",)

    def __init__(self, *, d: int, window: str) -> None:
        super().__init__()
        self.d_q = self.d_k = d
        self.window, self.product = window, ScaledDot()
        self.hidden = nn.Linear(d, d, bias=False)
        self.centre = nn.Linear(d, 1, bias=False)
        if window != "fixed":
            self.width = nn.Linear(d, 1, bias=False)
        if window == "layer":
            self.of_mean = nn.Linear(d, d, bias=False)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        scores: Tensor = self.product(query, key, context)
        read, keys = torch.tanh(self.hidden(query)), self.keys(key, context.mask)
        count = keys.sum(-1, keepdim=True)
        centre = count * in_single(self.centre(read)).sigmoid()
        away = context.positions(scores)[1] - centre
        return scores + (-2 * (away / self.wide(read, key, keys, count)) ** 2).to(scores.dtype)

    def keys(self, key: Tensor, mask: Tensor | None) -> Tensor:
        """Which keys there are, bool [batch, 1, 1 or query, key]."""
        every = torch.ones_like(key[:, :1, None, :, 0], dtype=torch.bool)
        return every if mask is None else whole(mask, mask.shape[-2], key.shape[-2])

    def wide(self, read: Tensor, key: Tensor, keys: Tensor, count: Tensor) -> Tensor:
        """D [batch, head, query or 1, 1]; a number of words where it is fixed."""
        if self.window == "fixed":
            return torch.full_like(read[:1, :1, :1, :1], _FIXED)
        if self.window == "layer":
            mean = keys[..., :1, :].to(key.dtype) @ key / count[..., :1, :].clamp(min=1)
            read = torch.tanh(self.of_mean(mean))
        return (count * in_single(self.width(read)).sigmoid()).clamp(min=_LEAST)


class LocalnessConfig(EncoderDecoderConfig):
    """Sizes. window: who says how wide it is, `query`, `layer` or `fixed`; `none` for scores without the term."""

    window: str = "query"

    def of_source(self) -> MultiHead:
        score = ScaledDot() if self.window == "none" else Localness(d=self.d_model // self.heads, window=self.window)
        return MultiHead(attention=Attention(score=score), d_model=self.d_model, heads=self.heads)


def card(network: EncoderDecoder, blueprint: Blueprint[LocalnessConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Transformer with localness",
        summary="Rewrites a text token by token, with an encoder whose tokens look around places that they predict.",
        taxonomy="scaled multiplicative, local, self-attentive, basic, multi-head, multi-hop",
        citation="Yang, Tu, Wong, Meng, Chao, Zhang (2018): Modeling Localness for Self-Attention Networks. EMNLP",
        **parts(network, blueprint),
    )


LOCALNESS = rewriting(LocalnessConfig, EncoderDecoder, card, PRESETS)
# The paper's other windows, and the Transformer without any.
LOCALNESS_LAYER, LOCALNESS_FIXED, LOCALNESS_NONE = (
    LOCALNESS.changed(window=each) for each in ("layer", "fixed", "none")
)
