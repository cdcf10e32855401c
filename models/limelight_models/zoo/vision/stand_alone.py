"""Stand-alone self-attention, L16 (Ramachandran et al. 2019): a network of pixels without convolutions over them.

The bottleneck of a ResNet, whose 3 × 3 convolution becomes attention to a window around each pixel (§3.1, §4.1).
"""

from limelight_models.attention.effective.pixels import Window
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.data import digits
from limelight_models.recipes import Blueprint, Card, classifying_pictures
from limelight_models.zoo.vision.pixel_network import PRESETS, PixelConfig, PixelNetwork, parts


class StandAloneConfig(PixelConfig):
    """Sizes. window: k, odd."""

    window: int = 3

    def attentions(self, stage: int) -> dict[str, MultiHead]:
        columns, reach = self.grid_of(stage)[1], self.window // 2
        window = Window(columns=columns, reach=reach, heads=self.heads, d=self.d(stage))
        return {"self": MultiHead(attention=window, d_model=self.d_hidden * 2**stage, heads=self.heads)}


def card(network: PixelNetwork, blueprint: Blueprint[StandAloneConfig]) -> Card:
    """Describe the network."""
    return blueprint.card(
        network,
        title="Stand-alone self-attention network",
        summary="Classifies an image by attention of each pixel to a window around it, without convolutions.",
        taxonomy="multiplicative, alignment: local, self-attentive, multi-head",
        citation="Ramachandran, Parmar, Vaswani, Bello, Levskaya, Shlens (2019): Stand-Alone Self-Attention in Vision "
        "Models. NeurIPS",
        **parts(network, {"self": "around it"}),
    )


SIZED = {**PRESETS, "paper": PRESETS["paper"].sized(window=7)}

STAND_ALONE = classifying_pictures(StandAloneConfig, PixelNetwork, card, SIZED, builtin=digits.dataset)
STAND_ALONE_UNPLACED = STAND_ALONE.changed(placed=False)
