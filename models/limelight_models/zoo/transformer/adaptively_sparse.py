"""Adaptively sparse Transformer, M19 (Correia et al. 2019): every head learns how many of its keys get a weight at all.

The Transformer with α-entmax in the place of each softmax, of the encoder, of the decoder, and between them. The
paper's other model, with α = 1.5 everywhere, is `limelight train transformer --attention 1.5-entmax`.
"""

from limelight_models.attention import Attention
from limelight_models.attention.align import Entmax
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.recipes import Blueprint, Card
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.transformer.encoder_decoder import PRESETS, EncoderDecoder, EncoderDecoderConfig, parts


class AdaptivelySparseConfig(EncoderDecoderConfig):
    """Sizes, which are those of the Transformer."""

    def multi_head(self) -> MultiHead:
        """Attention of heads with an α each.

        Att(Q, K, V) = π(Q Kᵀ / √d) V, π(z) = α-entmax(z) row by row (eq. 8), and per head
        α = 1 + sigmoid(a), a ∈ ℝ learned, so that α lies between softmax (1) and sparsemax (2).
        """
        align = Entmax(learned=True, heads=self.heads)
        return MultiHead(attention=Attention(score=ScaledDot(), align=align), d_model=self.d_model, heads=self.heads)


def card(network: EncoderDecoder, blueprint: Blueprint[AdaptivelySparseConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Adaptively sparse Transformer",
        summary="Rewrites a text token by token; each head has learned how many weights of a token are not 0.",
        taxonomy="scaled multiplicative, α-entmax, self-attentive, basic, multi-head, multi-hop",
        citation="Correia, Niculae, Martins (2019): Adaptively Sparse Transformers. EMNLP",
        **parts(network, blueprint),
    )


ADAPTIVELY_SPARSE = rewriting(AdaptivelySparseConfig, EncoderDecoder, card, PRESETS)
