"""Transformer, J7 (Vaswani et al. 2017, Figure 1): an encoder, and a decoder that looks at it and back at itself.

The figure stands in `encoder_decoder`, which others exchange a part of.
"""

from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import rewriting
from limelight_models.zoo.transformer.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, parts


def card(network: EncoderDecoder, blueprint: Blueprint[EncoderDecoderConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Transformer",
        summary="Rewrites a text token by token, looking at the source and back at itself before each one.",
        taxonomy="scaled multiplicative, self-attentive, basic, multi-head, multi-hop",
        citation="Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser, Polosukhin (2017): Attention Is All "
        "You Need. NeurIPS",
        **parts(network, blueprint),
    )


PRESETS = {
    "tiny": tiny(d_model=16, heads=2, d_hidden=16),
    "demo": preset(24, 64, 2e-3),
    "full": preset(12, 64, 1e-3, patience=2, vocabulary=2000, d_model=128, heads=8, d_hidden=512),
    # The base model (Table 3) on pieces of words (§5.1), with this project's schedule of the learning rate.
    "paper": preset(20, 512, 7e-4, patience=20, weight_decay=0.0, vocabulary=37_000).sized(
        d_model=512, layers=6, heads=8, d_hidden=2048
    ),
}

TRANSFORMER = rewriting(EncoderDecoderConfig, EncoderDecoder, card, PRESETS)
