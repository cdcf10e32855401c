"""Vision Transformer, L7 (Dosovitskiy et al. 2021): an image is worth 16 × 16 words.

Fig. 1 of the paper, from the bottom: patches, linear projection, class token and positions, encoder, classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2, values_pb2
from models.attention import Attention
from models.attention.queries.multi_head import MultiHead
from models.attention.score import ScaledDot
from models.cards import describe
from models.cards.card import Card
from models.network import Answer, Network


@dataclass(frozen=True, kw_only=True)
class VitConfig:
    """Sizes. The paper's base model has patch 16, d_model 768, 12 layers, 12 heads, d_hidden 3072.

    rows, columns: of the image, multiples of `patch`. mean, deviation: of pixels from 0 to 1, one a channel.
    """

    classes: int
    channels: int = 1
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

    @property
    def grid(self) -> tuple[int, int]:
        """Patches from top to bottom and from left to right."""
        return self.rows // self.patch, self.columns // self.patch


class Block(nn.Module):
    """A layer of the encoder (paper eq. 2–3): attention, then two layers a patch, each after a norm and added on.

    Shapes: features [batch, patch, d_model] -> the same, weights [batch, head, patch, patch].
    """

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.d_model)
        self.attention = MultiHead(attention=Attention(score=ScaledDot()), d_model=config.d_model, heads=config.heads)
        self.hidden_norm = nn.LayerNorm(config.d_model)
        self.hidden = nn.Sequential(
            nn.Linear(config.d_model, config.d_hidden), nn.GELU(), nn.Linear(config.d_hidden, config.d_model)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        normed = self.attention_norm(features)
        attended, weights = self.attention(normed, normed)
        features = features + self.dropout(attended)
        return features + self.dropout(self.hidden(self.hidden_norm(features))), weights


class VisionTransformer(Network):
    """Image -> classes, with the weights between all patches, in every layer and head.

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class],
        maps `encoder.<layer>.self` [batch, head, 1 + patch, 1 + patch]; entry 0 is the class token.
    """

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        if config.rows % config.patch or config.columns % config.patch:
            raise ValueError(f"{config.rows} × {config.columns} pixels cannot be cut into patches of {config.patch}")
        self.config = config
        patches = config.grid[0] * config.grid[1]
        self.project = nn.Linear(config.channels * config.patch**2, config.d_model)
        self.class_token = nn.Parameter(torch.randn(1, 1, config.d_model) * 0.02)
        self.position = nn.Parameter(torch.randn(1, 1 + patches, config.d_model) * 0.02)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.d_model)
        self.classify = nn.Linear(config.d_model, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        patches = self.project(self.patches(tensors["pixels"]))
        features = torch.cat([self.class_token.expand(patches.shape[0], -1, -1), patches], dim=1)
        features = self.dropout(features + self.position)
        maps = {}
        for layer, block in enumerate(self.blocks):
            features, maps[f"encoder.{layer}.self"] = block(features)
        return Answer({"logits": self.classify(self.norm(features[:, 0]))}, maps)

    def patches(self, pixels: Tensor) -> Tensor:
        """Cut into patches, row by row: [batch, channel, row, column] -> [batch, patch, channel × patch²]."""
        (rows, columns), size = self.config.grid, self.config.patch
        cut = pixels.unflatten(3, (columns, size)).unflatten(2, (rows, size))
        # [batch, channel, rows, size, columns, size] -> [batch, rows, columns, channel, size, size]
        return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def card(config: VitConfig, *, labels: Sequence[str]) -> Card:
    """Describe the transformer; labels: names of the classes."""
    sizes = {"channel": config.channels, "row": config.rows, "column": config.columns}
    image = model_pb2.InputDescription(
        name="image",
        kind=model_pb2.INPUT_KIND_IMAGE,
        summary="A picture; it is scaled to the model's size.",
        tensors=[
            model_pb2.TensorDescription(
                name="pixels",
                data_type=values_pb2.DATA_TYPE_FLOAT32,
                dimensions=[model_pb2.Dimension(name=name, size=size) for name, size in sizes.items()],
            )
        ],
    )
    names = [f"encoder.{layer}.self" for layer in range(config.layers)]
    maps = [
        model_pb2.MapDescription(
            name=name,
            stack="encoder",
            layer=layer,
            kind=attention_pb2.MAP_KIND_SELF,
            normalised=True,
            heads=config.heads,
            query_labels="patches",
            key_labels="patches",
            form=model_pb2.MAP_FORM_DENSE,
            summary=f"What each patch of layer {layer} looks at; entry 0 is the class token.",
        )
        for layer, name in enumerate(names)
    ]
    grid = attention_pb2.Grid(rows=config.grid[0], columns=config.grid[1], leading=["class"])
    description = model_pb2.ModelDescription(
        name="vit",
        title="Vision Transformer",
        summary="Classifies an image by self-attention between its patches.",
        task=model_pb2.TASK_CLASSIFICATION,
        inputs=[image],
        outputs=[describe.logits(config.classes)],
        result=describe.class_result(labels),
        maps=maps,
        label_sets=[model_pb2.LabelSetDescription(name="patches", kind=attention_pb2.LABEL_KIND_GRID, grid=grid)],
        limits=model_pb2.Limits(max_pixels=config.max_pixels),
        taxonomy=describe.taxonomy(
            "singular",
            "single-level",
            "single-representational",
            "scaled multiplicative",
            "global",
            "single-dimensional",
            "self-attentive",
            "multi-head",
        ),
        citation=model_pb2.Citation(
            authors=[
                "Dosovitskiy",
                "Beyer",
                "Kolesnikov",
                "Weissenborn",
                "Zhai",
                "Unterthiner",
                "Dehghani",
                "Minderer",
                "Heigold",
                "Gelly",
                "Uszkoreit",
                "Houlsby",
            ],
            title="An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale",
            year=2021,
            venue="ICLR",
        ),
    )
    steps = [
        bundle_pb2.PreprocessingStep(
            decode_image=bundle_pb2.DecodeImage(channels=config.channels, rows=config.rows, columns=config.columns)
        ),
        bundle_pb2.PreprocessingStep(
            normalise_image=bundle_pb2.NormaliseImage(
                scale=1 / 255, mean=config.mean, deviation=config.deviation, tensor="pixels"
            )
        ),
    ]
    axes = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY)
    return Card(
        description=description,
        preprocessing=(bundle_pb2.Preprocessing(input="image", steps=steps),),
        map_axes=dict.fromkeys(names, axes),
    )
