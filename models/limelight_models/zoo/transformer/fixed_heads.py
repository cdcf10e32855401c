"""Fixed multi-head attention, L14 (Bhojanapalli et al. 2020): the size of a head does not shrink with their number.

The Transformer with heads of their own size. With d / h features, a head's scores over n keys have a rank of d / h at
most, so that many heads cannot say which key (the paper's representation theorem: d / h ≥ n allows any weights).
"""

from limelight_models.attention import Attention
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.cards.results import State, cached_states
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, parts


class FixedHeadsConfig(EncoderDecoderConfig):
    """Sizes. d_head: of a head, by the paper the number of tokens; 0 for d_model / heads."""

    d_head: int = 16

    def multi_head(self) -> MultiHead:
        """Heads of d_p = d_head features, whatever d_model is (the paper's fixed multi-head attention).

        head_i = softmax((W_q^i X)ᵀ (W_k^i X) / √d_p) W_v^i X;  W_o [head_1; …; head_h]
        with W_q^i, W_k^i, W_v^i of d_p × d and W_o of d × h d_p.
        """
        return MultiHead(
            attention=Attention(score=ScaledDot()), d_model=self.d_model, heads=self.heads, d_head=self.d_head or None
        )

    def states(self) -> list[State]:
        return cached_states(self.layers, self.heads, self.heads * self.d_head or self.d_model)


def card(network: EncoderDecoder, blueprint: Blueprint[FixedHeadsConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Transformer with a fixed head size",
        summary="Rewrites a text token by token, looking at the source and back at itself by heads of their own size.",
        taxonomy="scaled multiplicative, self-attentive, basic, multi-head, multi-hop",
        citation="Bhojanapalli, Yun, Rawat, Reddi, Kumar (2020): Low-Rank Bottleneck in Multi-head Attention "
        "Models. ICML",
        **parts(network, blueprint),
    )


PRESETS = {
    "tiny": tiny(d_model=8, layers=1, heads=2, d_head=3, d_hidden=8),
    # Many heads for so few features: divided, each would have two.
    "demo": preset(16, 64, 2e-3, d_model=32, heads=16),
    "full": preset(12, 64, 1e-3, patience=2, vocabulary=2000, heads=16, d_head=32, d_hidden=256),
    # An embedding a quarter as large as is usual with 8 heads of 128, with this project's encoder and schedule.
    "paper": preset(20, 512, 7e-4, patience=20, weight_decay=0.0, vocabulary=32_000).sized(
        d_model=256, layers=6, heads=8, d_head=128, d_hidden=1024
    ),
}

FIXED_HEADS = rewriting(FixedHeadsConfig, EncoderDecoder, card, PRESETS)
# As many heads, which share the features of the model.
FIXED_HEADS_DIVIDED = FIXED_HEADS.changed(d_head=0)
