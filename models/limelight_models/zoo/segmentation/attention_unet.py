"""Attention U-Net, J15 (Oktay, Schlemper, Le Folgoc, Lee, Heinrich, Misawa, Mori, McDonagh, Hammerla, Kainz, Glocker &
Rueckert 2018): what goes across a U-Net passes gates, which the coarser side asks to let through what matters.

Fig. 1 of the paper, from the left: convolutions at ever coarser scales, then up again, at each scale with what the gate
(Fig. 2) lets through of the features of the same scale on the way down.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from limelight_models.attention import Attention
from limelight_models.attention.align import Sigmoid
from limelight_models.attention.score import Additive, MultiDimensional
from limelight_models.attention.weights import AroundAttention
from limelight_models.blocks.cells import contrast, convolution, over_the_picture
from limelight_models.blocks.patches import cut
from limelight_models.cards.language import Attends, Classes, ImageInput, Map, maps_of, one
from limelight_models.data import rows
from limelight_models.data.canvas import masks
from limelight_models.data.canvas.world import SIZE
from limelight_models.data.dataset import DataError, Dataset
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, Sizes, of_pictures, preset, tiny
from limelight_models.tasks.segment import Segment

_convolution = partial(convolution, norm=over_the_picture)


class AttentionUnetConfig(Sizes):
    """Sizes. The paper has 16, 32, 64, 128, 256 channels, each scale twice as coarse as the one before.

    channels: of each scale, the finest first, which has a cell for every `masks.CELL` pixels of a side. by_feature: a
    coefficient for each feature of a cell instead of one for all (for several classes of objects, paper §2.1).
    """

    classes: int
    rows: int = SIZE
    columns: int = SIZE
    mean: tuple[float, ...] = (0.5,)
    deviation: tuple[float, ...] = (0.5,)
    channels: tuple[int, ...] = (16, 32, 64)
    d_gate: int = 16
    by_feature: bool = False
    max_pixels: int = 16_777_216

    def __post_init__(self) -> None:
        coarsest = masks.CELL << (len(self.channels) - 1)
        if self.rows % coarsest or self.columns % coarsest:
            raise ValueError(f"{self.rows} x {self.columns} pixels do not divide by {coarsest}, the coarsest cell")
        if self.rows * self.columns == coarsest**2:
            raise ValueError(
                f"{self.rows} x {self.columns} pixels are one cell at the coarsest scale; have fewer scales"
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the cells that get a class."""
        return self.rows // masks.CELL, self.columns // masks.CELL


class Gate(AroundAttention, nn.Module):
    """Additive attention gate on a grid (paper §2.1, eq. 1–3; Fig. 2).

    α_i = sigmoid(ψᵀ relu(W_x x_i + W_g g_i + b) + b_ψ);  x̂_i = α_i x_i

    Each cell is asked by the gating signal of its own place and by no other: one query, one key. Coefficients are made
    on the gating signal's grid, twice as coarse (W_x is a convolution of 2 × 2 with stride 2), and enlarged.

    Shapes: features [batch, d_x, row, column], gating [batch, d_g, row / 2, column / 2]
        -> gated features, coefficients [batch, head = 1, query = 1, cell(, d_x)], row by row.
    """

    attention: Attention

    def __init__(self, *, d_x: int, d_g: int, d_w: int, by_feature: bool) -> None:
        super().__init__()
        score = (
            MultiDimensional(d_q=d_g, d_k=4 * d_x, d_w=d_w, d_v=d_x, act=torch.relu, offset=True)
            if by_feature
            else Additive(d_q=d_g, d_k=4 * d_x, d_w=d_w, act=torch.relu, offset=True)
        )
        self.attention = Attention(score=score, align=Sigmoid())

    def forward(self, features: Tensor, gating: Tensor) -> tuple[Tensor, Tensor]:
        keys, queries = cut(features, 2), gating.flatten(2).transpose(1, 2)
        # A batch of cells: [batch × cell, head = 1, query or key = 1, d].
        asked = self.attention.weights(queries.flatten(0, 1)[:, None, None], keys.flatten(0, 1)[:, None, None])
        coarse = asked.reshape(-1, keys.shape[1], asked.shape[-1]).transpose(1, 2)  # [batch, 1 or d_x, cell]
        coefficients = interpolate(coarse.unflatten(2, gating.shape[2:]), scale_factor=2, mode="bilinear")
        shown = coefficients.flatten(2).transpose(1, 2)[:, None, None]
        return features * coefficients, shown if asked.dim() > 4 else shown.squeeze(-1)


class AttentionUnet(Network):
    """Picture -> the classes of its cells, with what each gate lets through.

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, cell, class],
        maps `gate.<scale>` [batch, head = 1, query = 1, cell(, feature)], the finest scale first.
    """

    def __init__(self, config: AttentionUnetConfig) -> None:
        super().__init__()
        self.config = config
        finest, *coarser = config.channels
        self.first = nn.Sequential(
            _convolution(1, finest, size=5, stride=masks.CELL), _convolution(finest, finest, size=3)
        )
        steps = list(zip(config.channels[:-1], coarser, strict=True))  # (finer, coarser) channels
        self.down = nn.ModuleList(convolved(fine, coarse) for fine, coarse in steps)
        self.pool = nn.MaxPool2d(2)
        self.gates = nn.ModuleList(
            Gate(d_x=fine, d_g=coarse, d_w=config.d_gate, by_feature=config.by_feature) for fine, coarse in steps
        )
        self.up = nn.ModuleList(convolved(fine + coarse, fine) for fine, coarse in steps)
        self.classify = nn.Conv2d(finest, config.classes, 1)

    def forward(self, **tensors: Tensor) -> Answer:
        scales = [self.first(contrast(tensors["pixels"]))]
        for layer in self.down:
            scales.append(layer(self.pool(scales[-1])))
        features, maps = scales.pop(), {}
        for number in reversed(range(len(scales))):
            gated, coefficients = self.gates[number](scales[number], features)
            maps[f"gate.{number}"] = coefficients
            features = self.up[number](torch.cat([gated, interpolate(features, scale_factor=2)], 1))
        logits = self.classify(features).flatten(2).transpose(1, 2)
        return Answer({"logits": logits}, dict(sorted(maps.items())))


def convolved(d_in: int, d_out: int) -> nn.Sequential:
    """Two convolutions of 3 × 3."""
    return nn.Sequential(_convolution(d_in, d_out, size=3), _convolution(d_out, d_out, size=3))


def card(network: AttentionUnet, blueprint: Blueprint[AttentionUnetConfig]) -> Card:
    """Describe the network."""
    config = network.config
    image = ImageInput.of(config)
    rows_, columns = config.grid
    maps: dict[str, Map] = {}
    for number, gate in enumerate(network.gates):
        cells = image.cells(rows_ >> number, columns >> number, name=f"cells.{number}")
        about = "How much of each cell the gate lets through on its way across."
        shown = Attends(one("picture"), cells, about, features=config.channels[number])
        maps |= maps_of(gate, {f"gate.{number}": shown})
    return blueprint.card(
        network,
        title="Attention U-Net",
        summary="Tells the class of every cell of a picture by a U-Net with attention gates.",
        inputs=[image],
        results=[Classes(labels=blueprint.labels, over=image.cells(*config.grid, name="cells.0"))],
        maps=maps,
        taxonomy="additive, global, sigmoid, self-attentive, specialised" + ", multi-dimensional" * config.by_feature,
        citation="Oktay, Schlemper, Le Folgoc, Lee, Heinrich, Misawa, Mori, McDonagh, Hammerla, Kainz, Glocker, "
        "Rueckert (2018): Attention U-Net: Learning Where to Look for the Pancreas. MIDL",
    )


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[AttentionUnetConfig]:
    """The training part's size, brightness and classes. Raises: DataError where the size does not divide."""
    blueprint = of_pictures(AttentionUnetConfig)(dataset, preset)
    config = blueprint.config
    cells = config.grid[0] * config.grid[1]
    if any(len(example.labels) != cells for example in dataset.train):
        raise DataError(f"there are not {cells} labels a picture, one for each cell of {masks.CELL} x {masks.CELL}")
    return blueprint


PRESETS = {
    "tiny": tiny(channels=(3, 4), d_gate=3),
    "demo": preset(10, 32, 4e-3, patience=10),
    "full": preset(30, 32, 2e-3, patience=8, channels=(32, 64, 128), d_gate=32),
    "paper": preset(100, 16, 1e-3, patience=20, channels=(16, 32, 64, 128), d_gate=64),
}

ATTENTION_UNET = Recipe(
    AttentionUnetConfig,
    AttentionUnet,
    card,
    prepare,
    PRESETS,
    task=Segment(grid=(SIZE // masks.CELL, SIZE // masks.CELL), size=(SIZE, SIZE)),
    data=rows.MASKS,
    builtin=masks.dataset,
)
# Coefficients of each feature, for classes of objects.
ATTENTION_UNET_FEATURES = ATTENTION_UNET.changed(by_feature=True)
