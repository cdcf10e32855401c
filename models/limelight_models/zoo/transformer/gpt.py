"""GPT-2, L2 (Radford et al. 2019): a decoder alone, which continues a prompt.

§2.3: the decoder of Vaswani et al. 2017 without its encoder, norms in front of each part and one at the end.
"""

from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.zoo.transformer.decoder import Decoder, DecoderConfig, continuing, parts


class GptConfig(DecoderConfig):
    """Sizes. The paper's smallest has d_model 768, 12 layers, 12 heads, d_hidden 3072 and 1024 places."""


def card(network: Decoder, blueprint: Blueprint[GptConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="GPT-2",
        summary="Continues a text token by token, looking back at all of it before each one.",
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Radford, Wu, Child, Luan, Amodei, Sutskever (2019): Language Models are Unsupervised Multitask "
        "Learners. OpenAI",
        **parts(network, blueprint),
    )


PRESETS = {
    "tiny": tiny(d_model=16, heads=2, d_hidden=16),
    "demo": preset(12, 64, 2e-3, d_hidden=128),
    "full": preset(12, 64, 1e-3, patience=2, vocabulary=2000).sized(
        d_model=256, layers=4, heads=8, d_hidden=1024, dropout=0.2
    ),
    # The smallest (Table 2), with 1024 places, half of them for the prompt. The paper says nothing of its rate: that of
    # the first GPT (Radford et al. 2018, §4.1).
    "paper": preset(20, 512, 2.5e-4, patience=20, vocabulary=50_257).sized(
        d_model=768, layers=12, heads=12, d_hidden=3072, max_prompt=511, max_new_tokens=512, max_characters=10_000
    ),
}

GPT = continuing(GptConfig, card, PRESETS)
