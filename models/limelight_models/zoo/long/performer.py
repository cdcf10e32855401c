"""Performer, M5 (Choromanski et al. 2021): FAVOR+, random features whose products estimate the softmax's exponentials.

Algorithm 1 of the paper: features of queries and keys (§2.3, positive; §2.4, orthogonal), then sums over keys. Features
are drawn once, with the parameters; the paper may draw them anew while it trains.
"""

from limelight_models.attention.effective.random import Favor
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class PerformerConfig(LongConfig):
    """Sizes. features: random ones of a head. causal: whether a token looks at those before it alone (Appendix B.1).

    independent, trigonometric: without an idea of the paper, features that are orthogonal, or positive.
    """

    features: int = 64
    causal: bool = False
    independent: bool = False
    trigonometric: bool = False

    def attention(self) -> Favor:
        return Favor(
            d=self.d_head,
            features=self.features,
            independent=self.independent,
            trigonometric=self.trigonometric,
            causal=self.causal,
        )


def card(network: LongEncoder, blueprint: Blueprint[PerformerConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Performer",
        summary="Classifies a long text by an estimate of softmax attention whose cost is linear in the tokens.",
        taxonomy="scoring: generalised kernel, self-attentive, multi-head",
        citation="Choromanski, Likhosherstov, Dohan, Song, Gane, Sarlos, Hawkins, Davis, Mohiuddin, Kaiser, Belanger, "
        "Colwell, Weller (2021): Rethinking Attention with Performers. ICLR",
        **parts(network, blueprint),
    )


# Its network of proteins (§4.3): 36 layers of 8 heads. What it leaves out is as usual.
PRESETS = presets(
    preset(20, 16, 1e-3, patience=4, vocabulary=8000).sized(
        d_model=512, layers=36, heads=8, d_hidden=1024, features=256
    )
)

PERFORMER = classifying_texts(PerformerConfig, LongEncoder, card, PRESETS, builtin=builtin)
PERFORMER_CAUSAL = PERFORMER.changed(causal=True)
PERFORMER_INDEPENDENT = PERFORMER.changed(independent=True)
PERFORMER_TRIGONOMETRIC = PERFORMER.changed(trigonometric=True)
