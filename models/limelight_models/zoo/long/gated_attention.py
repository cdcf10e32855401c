"""Gated attention, T1 (Qiu et al. 2025): what each head gives passes a gate that the token itself sets.

§2 of the paper, position G1, its best: feature by feature, in each head, behind the product of weights and values. The
layer around is the plain Transformer's; the paper's rotary positions are sines here.
"""

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class GatedHeads(MultiHead):
    """W_O [Y_1 ⊙ σ(X W_1); …; Y_H ⊙ σ(X W_H)], Y_h = attention(W_Q^h q, W_K^h k, W_V^h v) (eq. 5).

    Shapes: as `MultiHead`.
    """

    def __init__(self, *, attention: Attention, d_model: int, heads: int) -> None:
        super().__init__(attention=attention, d_model=d_model, heads=heads)
        self.output_map = nn.Linear(d_model, d_model, bias=False)

    def output(self, context_vectors: Tensor, query: Tensor) -> Tensor:
        return self.join(context_vectors * self.split(self.output_map(query)).sigmoid())


class GatedConfig(LongConfig):
    """Sizes. gated: whether heads have gates."""

    looks_back = True
    gated: bool = True

    def attention(self) -> Attention:
        return Attention(score=ScaledDot())

    def multi_head(self, number: int) -> MultiHead:
        if not self.gated:
            return super().multi_head(number)
        return GatedHeads(attention=self.attention(), d_model=self.d_model, heads=self.heads)


def card(network: LongEncoder, blueprint: Blueprint[GatedConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Gated attention",
        summary="Classifies a long text by heads whose output passes gates that each token sets.",
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Qiu, Wang, Zheng, Huang, Wen, Yang, Men, Yu, Huang, Huang, Liu, Zhou, Lin (2025): Gated Attention "
        "for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free. NeurIPS",
        **parts(network, blueprint),
    )


# Its dense model of 1.7 billion parameters: 28 layers of 16 heads. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 4e-3, patience=2, vocabulary=8000).sized(d_model=2048, layers=28, heads=16, d_hidden=6144)
)

GATED_ATTENTION = classifying_texts(GatedConfig, LongEncoder, card, PRESETS, builtin=builtin)
GATED_ATTENTION_UNGATED = GATED_ATTENTION.changed(gated=False)
