"""Axial attention, L16 (Wang et al. 2020, after Ho et al. 2019): each pixel along its column, then along its row.

Fig. 2 of the paper: the bottleneck of a ResNet, whose 3 × 3 convolution becomes two attentions, with terms of places
in queries, keys and values (eq. 4). Without the norms of the authors' code inside of attention.
"""

from limelight_models.attention.effective.pixels import Line
from limelight_models.attention.queries.lines import LineHeads
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.data import digits
from limelight_models.recipes import Blueprint, Card, classifying_pictures
from limelight_models.zoo.vision.pixel_network import PRESETS, PixelConfig, PixelNetwork, parts


class AxialConfig(PixelConfig):
    """Sizes. placed: whether queries, keys and values know distances."""

    def attentions(self, stage: int) -> dict[str, MultiHead]:
        return {name: self.along(stage, down=name == "height") for name in ("height", "width")}

    def along(self, stage: int, *, down: bool) -> LineHeads:
        """Heads along columns, or along rows."""
        line = Line(grid=self.grid_of(stage), down=down, d=self.d(stage))
        return LineHeads(line, d_model=self.d_hidden * 2**stage, heads=self.heads, placed=self.placed)


def card(network: PixelNetwork, blueprint: Blueprint[AxialConfig]) -> Card:
    """Describe the network."""
    return blueprint.card(
        network,
        title="Axial attention network",
        summary="Classifies an image by attention of each pixel to its column, then to its row, without convolutions.",
        taxonomy="multiplicative, alignment: local, self-attentive, multi-head",
        citation="Wang, Zhu, Green, Adam, Yuille, Chen (2020): Axial-DeepLab: Stand-Alone Axial-Attention for Panoptic "
        "Segmentation. ECCV",
        **parts(network, {"height": "in its column", "width": "in its row"}),
    )


AXIAL = classifying_pictures(AxialConfig, PixelNetwork, card, PRESETS, builtin=digits.dataset)
AXIAL_UNPLACED = AXIAL.changed(placed=False)
