"""Transformer, J7 (Vaswani et al. 2017, Figure 1): an encoder, and a decoder that looks at it and back at itself.

The figure stands in `encoder_decoder`, which others exchange a part of.
"""

from limelight_models.cards.card import Card
from limelight_models.cards.describe import describe
from limelight_models.cards.taxonomy import Citation, Taxonomy
from limelight_models.recipes.recipe import Blueprint
from limelight_models.recipes.settings import Preset, Settings, tiny
from limelight_models.zoo.seq2seq import rewriting
from limelight_models.zoo.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, parts


def card(network: EncoderDecoder, blueprint: Blueprint[EncoderDecoderConfig]) -> Card:
    """Describe the model."""
    return describe(
        title="Transformer",
        summary="Rewrites a text token by token, looking at the source and back at itself before each one.",
        taxonomy=Taxonomy(
            scoring="scaled multiplicative",
            query=("self-attentive", "basic"),
            multiplicity=("multi-head", "multi-hop"),
        ),
        citation=Citation(
            "Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser, Polosukhin",
            "Attention Is All You Need",
            2017,
            "NeurIPS",
        ),
        **parts(network, blueprint),
    )


PRESETS = {
    "tiny": tiny(d_model=16, layers=2, heads=2, d_hidden=16),
    "demo": Preset(
        settings=Settings(epochs=24, batch_size=64, learning_rate=2e-3, patience=4),
        sizes={"d_model": 64, "layers": 2, "heads": 4, "d_hidden": 128},
    ),
    "full": Preset(
        settings=Settings(epochs=12, batch_size=64, learning_rate=1e-3, patience=2),
        sizes={"d_model": 128, "layers": 2, "heads": 8, "d_hidden": 512, "dropout": 0.1},
        vocabulary=2000,
    ),
    # The base model (Table 3) on pieces of words (§5.1), with this project's schedule of the learning rate.
    "paper": Preset(
        settings=Settings(epochs=20, batch_size=512, learning_rate=7e-4, patience=20, weight_decay=0.0),
        sizes={"d_model": 512, "layers": 6, "heads": 8, "d_hidden": 2048, "dropout": 0.1},
        vocabulary=37_000,
    ),
}

TRANSFORMER = rewriting(EncoderDecoderConfig, EncoderDecoder, card, PRESETS)
