"""A network of pixels without convolutions over them, for models that differ in where a pixel looks.

The bottleneck of a ResNet, whose 3 × 3 convolution becomes attention (Ramachandran et al. 2019, §4.1). Ours: a linear
map of patches in the place of the stem, and halves between stages, not inside of their first layer.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.blocks.bottleneck import Bottleneck
from limelight_models.blocks.patches import cut
from limelight_models.cards.language import Attends, ImageInput, Map, maps_of
from limelight_models.network import Answer, Network
from limelight_models.recipes import preset, tiny
from limelight_models.zoo.vision.patched import PatchedConfig


class PixelConfig(PatchedConfig):
    """Sizes. d_model, d_hidden: of the first stage, outside of a bottleneck and in it; each stage doubles them.

    stages: each of half the rows and columns of the one before, of so many `layers`. placed: whether scores know
    distances.
    """

    patch: int = 1
    stages: int = 2
    layers: int = 2
    d_hidden: int = 32
    dropout: float = 0.0
    placed: bool = True

    def __post_init__(self) -> None:
        if any(side % (self.patch * 2 ** (self.stages - 1)) for side in (self.rows, self.columns)):
            raise ValueError(f"{self.rows} x {self.columns} pixels cannot be halved for {self.stages} stages")

    def grid_of(self, stage: int) -> tuple[int, int]:
        """Rows and columns of a stage."""
        return self.grid[0] // 2**stage, self.grid[1] // 2**stage

    def d(self, stage: int) -> int:
        """Features of a head where scores know distances, else 0."""
        return self.d_hidden * 2**stage // self.heads * self.placed

    def attentions(self, stage: int) -> dict[str, MultiHead]:
        """Those of a layer, one behind the other, by the names of their maps."""
        raise NotImplementedError


class PixelNetwork(Network):
    """Image -> classes, with what each pixel looks at, in every layer and head.

    y = W mean(x) + b, x the pixels of the last stage

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class], maps `encoder.<layer>.<name>` [batch,
        head, pixel, pixel] by the names of the config's attentions, of the pixels of the layer's stage.
    """

    def __init__(self, config: PixelConfig) -> None:
        super().__init__()
        self.config = config
        self.project = nn.Linear(config.pixels, config.d_model)
        self.layers = nn.ModuleList()
        d_in = config.d_model
        for stage in range(config.stages):
            d, d_hidden = (size * 2**stage for size in (config.d_model, config.d_hidden))
            for _ in range(config.layers):
                attentions = config.attentions(stage)
                self.layers.append(Bottleneck(d_in=d_in, d_hidden=d_hidden, d=d, attentions=attentions))
                d_in = d
        self.dropout = nn.Dropout(config.dropout)
        self.classify = nn.Linear(d_in, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        x = self.project(cut(tensors["pixels"], self.config.patch)).transpose(1, 2)
        maps: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            stage, begins = divmod(number, self.config.layers)
            if stage and not begins:
                x = avg_pool2d(x.unflatten(2, self.config.grid_of(stage - 1)), 2).flatten(2)
            x, found = layer(x)
            maps |= {f"encoder.{number}.{name}": weights for name, weights in found.items()}
        return Answer({"logits": self.classify(self.dropout(x.mean(2)))}, maps)


def parts(network: PixelNetwork, where: Mapping[str, str]) -> dict[str, Any]:
    """Inputs and maps of the card. where: what each attention looks at, by the names of their maps."""
    config, image = network.config, ImageInput.of(network.config)
    maps = dict[str, Map]()
    for number, layer in enumerate(network.layers):
        stage = number // config.layers
        cells = image.cells(*config.grid_of(stage), name=f"cells of stage {stage}")
        shown = {
            f"encoder.{number}.{name}": Attends(
                cells, cells, f"What each cell of layer {number} looks at {at}.", "self"
            )
            for name, at in where.items()
        }
        maps |= maps_of(layer, shown)
    return {"inputs": [image], "maps": maps}


PRESETS = {
    "tiny": tiny(d_model=8, layers=1, heads=2, d_hidden=8),
    "demo": preset(15, 64, 2e-3, patience=15, weight_decay=0.05),
    "full": preset(20, 64, 1e-3, patience=5, weight_decay=0.05),
    # ResNet-50 of grey pictures (§4.1), with four layers in each stage, not 3, 4, 6 and 3.
    "paper": preset(130, 512, 1e-3, patience=130).sized(patch=4, stages=4, d_model=256, layers=4, heads=8, d_hidden=64),
}
