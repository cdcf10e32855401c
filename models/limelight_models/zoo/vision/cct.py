"""Compact convolutional Transformer (Hassani et al. 2021): convolutions make the tokens, attention makes them one.

Fig. 2 of the paper, from the left: convolutional tokenizer, positions, encoder, sequence pooling, classes.
"""

import itertools

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.score import Dot
from limelight_models.blocks.transformer import EncoderLayer
from limelight_models.cards.hidden import named_states
from limelight_models.cards.language import Attends, ImageInput, maps_of, one
from limelight_models.data import snapshots
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Sizes, classifying_pictures, preset, tiny

_EPSILON = 1e-3  # of a picture without contrast


class CctConfig(Sizes):
    """Sizes. The paper's CCT-7/3x1 has one convolution, d_model 256, 7 layers, 4 heads, d_hidden 512.

    rows, columns: of the picture, multiples of 2 to the number of `channels`. channels: put out by each convolution
    that halves the picture; one more makes d_model of them, a token a cell.
    """

    classes: int
    rows: int = 32
    columns: int = 32
    channels: tuple[int, ...] = (16, 32)
    d_model: int = 64
    layers: int = 1
    heads: int = 4
    d_hidden: int = 128
    dropout: float = 0.1
    mean: tuple[float, ...] = (0.5,)
    deviation: tuple[float, ...] = (0.5,)
    max_pixels: int = 16_777_216

    def __post_init__(self) -> None:
        if self.rows % 2 ** len(self.channels) or self.columns % 2 ** len(self.channels):
            raise ValueError(f"{self.rows} x {self.columns} pixels cannot be halved {len(self.channels)} times")

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of the tokens."""
        return self.rows // 2 ** len(self.channels), self.columns // 2 ** len(self.channels)


class CompactTransformer(Network):
    """Picture -> classes, with the weight of each of its cells.

    Every picture is brought to the same brightness and contrast first, whatever light it was taken in.

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class], maps `pool` [batch, 1, 1, cell],
        `encoder.<layer>.self` [batch, head, cell, cell] with scores and norms.
    """

    def __init__(self, config: CctConfig) -> None:
        super().__init__()
        self.config, d_model = config, config.d_model
        sizes = (len(config.mean), *config.channels, d_model)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1) for before, after in itertools.pairwise(sizes)
        )
        rows, columns = config.cells
        self.position = nn.Parameter(torch.randn(1, rows * columns, d_model) * 0.02)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model=d_model, heads=config.heads, d_hidden=config.d_hidden, dropout=config.dropout)
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(d_model)
        # x' = softmax(g(x)ᵀ) x, g linear: a trained query (§3.2).
        self.pool = SelfAttentivePool(attention=Attention(score=Dot()), d_q=d_model)
        self.classify = nn.Linear(d_model, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        pixels = tensors["pixels"]
        level = pixels.mean((2, 3), keepdim=True)
        spread = (pixels - level).square().mean((2, 3), keepdim=True)
        features = (pixels - level) / (spread + _EPSILON).sqrt()
        for number, convolution in enumerate(self.convolutions):
            features = torch.relu(convolution(features))
            if number < len(self.config.channels):
                features = torch.max_pool2d(features, 2)
        features = self.dropout(features.flatten(2).transpose(1, 2) + self.position)  # [batch, cell, d_model]
        maps, states = dict[str, Tensor](), [features]
        for number, layer in enumerate(self.layers):
            features, looks = layer(features)
            states.append(features)
            maps |= looks.maps(f"encoder.{number}.self")
        states[-1] = self.norm(features)
        pooled, weights = self.pool(states[-1])
        outputs = {"logits": self.classify(self.dropout(pooled)), **named_states("encoder", states)}
        return Answer(outputs, {"pool": weights, **maps})


def card(network: CompactTransformer, blueprint: Blueprint[CctConfig]) -> Card:
    """Describe the transformer."""
    config = network.config
    image = ImageInput.of(config)
    cells = image.cells(*config.cells)
    counts = Attends(one("picture"), cells, "How much each cell of the picture counts in the answer.")
    shown = Attends(cells, cells, "What each cell of layer {} looks at.")
    return blueprint.card(
        network,
        title="Compact convolutional Transformer",
        summary="Classifies a picture: convolutions read its cells, which look at each other and are weighed.",
        inputs=[image],
        maps=maps_of(network.pool, {"pool": counts}) | maps_of(network.layers, {"encoder.{}.self": shown}),
        hidden={"encoder": config.d_model},
        taxonomy="multiplicative, scaled multiplicative, self-attentive, multi-head",
        citation="Hassani, Walton, Shah, Abuduweili, Li, Shi (2021): Escaping the Big Data Paradigm with Compact "
        "Transformers. arXiv",
    )


PRESETS = {
    "tiny": tiny(channels=(4, 6), d_model=8, layers=2, heads=2, d_hidden=12),
    "demo": preset(8, 64, 3e-3, weight_decay=0.02),
    "full": preset(20, 64, 1e-3, patience=5, weight_decay=0.05, channels=(32, 64), d_model=128, layers=3, d_hidden=256),
    # CCT-7/3x1 as it learns CIFAR-10, but for pictures changed at random. Its one convolution halves the picture; here
    # the one that does stands before that.
    "paper": preset(300, 128, 5.5e-4, weight_decay=0.06, patience=300).sized(
        channels=(64,), d_model=256, layers=7, d_hidden=512
    ),
}

CCT = classifying_pictures(CctConfig, CompactTransformer, card, PRESETS, builtin=snapshots.dataset)
# Taught where the digit is.
CCT_SUPERVISED = CCT.supervised(0.5)
