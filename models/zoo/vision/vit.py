"""Vision Transformer, L7 (Dosovitskiy et al. 2021): an image is worth 16 × 16 words.

Fig. 1 of the paper, from the bottom: patches, linear projection, class token and positions, encoder, classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from models.blocks.patches import cut
from models.blocks.transformer import EncoderLayer
from models.cards.card import Card
from models.cards.describe import describe
from models.cards.inputs import ImageInput
from models.cards.maps import Attends, maps_of
from models.cards.results import Classes
from models.cards.taxonomy import Citation, Taxonomy
from models.data import digits, folder
from models.network import Answer, Network
from models.tasks.classify import Classify
from models.training.prepared import of_pictures
from models.training.recipe import Blueprint, Recipe
from models.training.settings import Preset, Settings, tiny


@dataclass(frozen=True, kw_only=True)
class VitConfig:
    """Sizes. The paper's base model has patch 16, d_model 768, 12 layers, 12 heads, d_hidden 3072.

    rows, columns: of the image, multiples of `patch`. mean, deviation: of pixels from 0 to 1, one a channel.
    """

    classes: int
    rows: int = 8
    columns: int = 8
    patch: int = 2
    d_model: int = 64
    layers: int = 4
    heads: int = 4
    d_hidden: int = 128
    dropout: float = 0.1
    mean: tuple[float, ...] = (0.5,)
    deviation: tuple[float, ...] = (0.5,)
    max_pixels: int = 16_777_216

    def __post_init__(self) -> None:
        if self.rows % self.patch or self.columns % self.patch:
            raise ValueError(f"{self.rows} x {self.columns} pixels cannot be cut into patches of {self.patch}")


class VisionTransformer(Network):
    """Image -> classes, with the weights between all patches, in every layer and head.

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class],
        maps `encoder.<layer>.self` [batch, head, 1 + patch, 1 + patch], with scores and norms; entry 0 is the class
        token.
    """

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        self.config, d_model = config, config.d_model
        patches = (config.rows // config.patch) * (config.columns // config.patch)
        self.project = nn.Linear(len(config.mean) * config.patch**2, d_model)
        self.class_token = nn.Parameter(torch.randn(1, 1, d_model) * 0.02)
        self.position = nn.Parameter(torch.randn(1, 1 + patches, d_model) * 0.02)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model=d_model, heads=config.heads, d_hidden=config.d_hidden, dropout=config.dropout)
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(d_model)
        self.classify = nn.Linear(d_model, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        patches = self.project(cut(tensors["pixels"], self.config.patch))
        features = torch.cat([self.class_token.expand(patches.shape[0], -1, -1), patches], dim=1)
        features = self.dropout(features + self.position)
        maps: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            features, looks = layer(features)
            maps |= looks.maps(f"encoder.{number}.self")
        return Answer({"logits": self.classify(self.norm(features[:, 0]))}, maps)


def card(network: VisionTransformer, blueprint: Blueprint[VitConfig]) -> Card:
    """Describe the transformer."""
    config = network.config
    image = ImageInput.of(config)
    patches = image.patches(config.patch, leading=("class",))
    shown = Attends(patches, patches, "What each patch of layer {} looks at; entry 0 is the class token.")
    return describe(
        title="Vision Transformer",
        summary="Classifies an image by self-attention between its patches.",
        inputs=[image],
        results=[Classes(labels=blueprint.labels)],
        maps=maps_of(network.layers, {"encoder.{}.self": shown}),
        taxonomy=Taxonomy(scoring="scaled multiplicative", query="self-attentive", multiplicity="multi-head"),
        citation=Citation(
            "Dosovitskiy, Beyer, Kolesnikov, Weissenborn, Zhai, Unterthiner, Dehghani, Minderer, Heigold, Gelly, "
            "Uszkoreit, Houlsby",
            "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale",
            2021,
            "ICLR",
        ),
        config=config,
    )


PRESETS = {
    "tiny": tiny(patch=2, d_model=8, layers=2, heads=2, d_hidden=12),
    "demo": Preset(
        settings=Settings(epochs=30, batch_size=64, learning_rate=2e-3, patience=15, weight_decay=0.05),
        sizes={"patch": 2, "d_model": 64, "layers": 4, "heads": 4, "d_hidden": 128},
    ),
    "full": Preset(
        settings=Settings(epochs=20, batch_size=64, learning_rate=1e-3, patience=5, weight_decay=0.05),
        sizes={"patch": 4, "d_model": 64, "layers": 4, "heads": 4, "d_hidden": 128},
    ),
    # ViT-B/16 as it learns ImageNet alone (Table 3), of grey pictures of 224 × 224; the paper's batches are of 4096.
    "paper": Preset(
        settings=Settings(epochs=300, batch_size=512, learning_rate=3e-3, weight_decay=0.3, patience=300),
        sizes={"patch": 16, "d_model": 768, "layers": 12, "heads": 12, "d_hidden": 3072, "dropout": 0.1},
    ),
}

VIT = Recipe(
    config=VitConfig,
    network=VisionTransformer,
    card=card,
    task=Classify(),
    data=folder.IMAGES,
    builtin=digits.dataset,
    prepare=of_pictures(VitConfig),
    presets=PRESETS,
)
