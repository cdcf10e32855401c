"""Adaptively sparse Transformer, M19 (Correia et al. 2019): every head learns how many of its keys get a weight at all.

The Transformer with α-entmax in the place of each softmax, of the encoder, of the decoder, and between them. The
paper's other model, with α = 1.5 everywhere, is `limelight train transformer --attention 1.5-entmax`.
"""

from dataclasses import dataclass

from models.attention import Attention
from models.attention.align import Entmax
from models.attention.queries.multi_head import MultiHead
from models.attention.score import ScaledDot
from models.cards.card import Card
from models.cards.describe import describe
from models.cards.taxonomy import Citation, Taxonomy
from models.data import dates, rows
from models.tasks.generate import Generate
from models.training.recipe import Blueprint, Recipe
from models.training.settings import Preset, Settings, tiny
from models.zoo.seq2seq import prepare
from models.zoo.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, parts


@dataclass(frozen=True, kw_only=True)
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
    return describe(
        title="Adaptively sparse Transformer",
        summary="Rewrites a text token by token; each head has learned how many weights of a token are not 0.",
        taxonomy=Taxonomy(
            scoring="scaled multiplicative",
            alignment="α-entmax",
            query=("self-attentive", "basic"),
            multiplicity=("multi-head", "multi-hop"),
        ),
        citation=Citation("Correia, Niculae, Martins", "Adaptively Sparse Transformers", 2019, "EMNLP"),
        **parts(network, blueprint),
    )


PRESETS = {
    "tiny": tiny(d_model=8, layers=1, heads=2, d_hidden=8),
    "demo": Preset(
        settings=Settings(epochs=16, batch_size=64, learning_rate=2e-3, patience=4),
        sizes={"d_model": 64, "layers": 2, "heads": 4, "d_hidden": 128},
    ),
    "full": Preset(
        settings=Settings(epochs=12, batch_size=64, learning_rate=1e-3, patience=2),
        sizes={"d_model": 128, "layers": 2, "heads": 8, "d_hidden": 512, "dropout": 0.1},
        vocabulary=2000,
    ),
    # Transformer base with this project's schedule of the learning rate.
    "paper": Preset(
        settings=Settings(epochs=20, batch_size=512, learning_rate=7e-4, patience=20, weight_decay=0.0),
        sizes={"d_model": 512, "layers": 6, "heads": 8, "d_hidden": 2048, "dropout": 0.1},
        vocabulary=32_000,
    ),
}

ADAPTIVELY_SPARSE = Recipe(
    config=AdaptivelySparseConfig,
    network=EncoderDecoder,
    card=card,
    task=Generate(),
    data=rows.PAIRS,
    builtin=dates.dataset,
    prepare=prepare(AdaptivelySparseConfig),
    presets=PRESETS,
)
