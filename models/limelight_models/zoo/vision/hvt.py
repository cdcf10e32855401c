"""Hierarchical visual Transformer, M21 (Pan et al. 2021): patches are pooled on the way, and classified by an average.

Fig. 2 of the paper: each stage begins with the maximum of tokens that stand next to each other, and places of its own;
the tokens of the last stage are averaged in the place of a class token.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool1d

from limelight_models.blocks.patches import cut
from limelight_models.blocks.transformer import VIT_EPSILON, EncoderLayer
from limelight_models.cards.language import Attends, ImageInput, LabelSet, Map, maps_of
from limelight_models.data import digits
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, classifying_pictures, preset, tiny
from limelight_models.zoo.vision.patched import PatchedConfig


class HvtConfig(PatchedConfig):
    """Sizes. The paper's HVT-S has patch 16, d_model 384, 12 layers, 6 heads, d_hidden 1536, and is pooled once.

    stages: each of so many `layers`; all but the first begin with a pool, where `pooled`. kernel, stride: how many
    tokens become one, and how far each is from the next.
    """

    layers: int = 2
    stages: int = 2
    kernel: int = 3
    stride: int = 2
    pooled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooled and self.stride ** (self.stages - 1) > self.grid[0] * self.grid[1]:
            raise ValueError(f"{self.grid[0]} x {self.grid[1]} patches cannot be pooled for {self.stages} stages")

    def patches_of(self, stage: int) -> list[range]:
        """Which patches, counted row by row, each token of a stage covers, side by side."""
        found = [range(number, number + 1) for number in range(self.grid[0] * self.grid[1])]
        for _ in range(stage if self.pooled else 0):
            centres = range(0, len(found), self.stride)
            near = [found[max(each - self.kernel // 2, 0) : each + self.kernel // 2 + 1] for each in centres]
            found = [range(each[0].start, each[-1].stop) for each in near]
        return found


class Stage(nn.Module):
    """Ẑ = MaxPool(Z) + P, then layers of attention (eq. 4 to 6). pooled: whether tokens are pooled first.

    Shapes: [batch, token, d_model] -> [batch, pooled token, d_model], maps of its layers.
    """

    def __init__(self, config: HvtConfig, number: int) -> None:
        super().__init__()
        self.pool = (config.kernel, config.stride, config.kernel // 2) if config.pooled and number else None
        tokens, sizes = len(config.patches_of(number)), ("d_model", "heads", "d_hidden", "dropout")
        self.position = nn.Parameter(torch.randn(1, tokens, config.d_model) * 0.02)
        self.layers = nn.ModuleList(
            EncoderLayer(epsilon=VIT_EPSILON, **{name: getattr(config, name) for name in sizes})
            for _ in range(config.layers)
        )

    def forward(self, tokens: Tensor, first: int) -> tuple[Tensor, dict[str, Tensor]]:
        """first: number of its first layer."""
        if self.pool is not None:
            tokens = max_pool1d(tokens.transpose(1, 2), *self.pool).transpose(1, 2)
        features, maps = tokens + self.position, dict[str, Tensor]()
        for number, layer in enumerate(self.layers, first):
            features, looks = layer(features)
            maps |= looks.maps(f"encoder.{number}.self")
        return features, maps


class HierarchicalTransformer(Network):
    """Image -> classes, with the weights between all tokens of a stage, in every layer and head.

    y = W mean(norm(Z)) + b, Z the tokens of the last stage (eq. 7)

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class], maps `encoder.<layer>.self` [batch,
        head, token, token] with scores and norms.
    """

    def __init__(self, config: HvtConfig) -> None:
        super().__init__()
        self.config = config
        self.project = nn.Linear(config.pixels, config.d_model)
        self.stages = nn.ModuleList(Stage(config, number) for number in range(config.stages))
        self.dropout = nn.Dropout(config.dropout)
        self.norm = nn.LayerNorm(config.d_model, VIT_EPSILON)
        self.classify = nn.Linear(config.d_model, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        features = self.dropout(self.project(cut(tensors["pixels"], self.config.patch)))
        maps: dict[str, Tensor] = {}
        for number, stage in enumerate(self.stages):
            features, found = stage(features, number * self.config.layers)
            maps |= found
        return Answer({"logits": self.classify(self.norm(features).mean(1))}, maps)


def card(network: HierarchicalTransformer, blueprint: Blueprint[HvtConfig]) -> Card:
    """Describe the transformer."""
    config, image = network.config, ImageInput.of(network.config)
    maps: dict[str, Map] = {}
    for number, stage in enumerate(network.stages):
        assert isinstance(stage, Stage)
        tokens = image.patches(config.patch)
        if number and config.pooled:
            names = tuple(f"patches {each.start + 1} to {each.stop}" for each in config.patches_of(number))
            tokens = LabelSet(name=f"tokens of stage {number}", kind="latents", names=names)
        for place, layer in enumerate(stage.layers, number * config.layers):
            about = f"What each token of layer {place} looks at."
            maps |= maps_of(layer, {f"encoder.{place}.self": Attends(tokens, tokens, about)})
    return blueprint.card(
        network,
        title="Hierarchical visual Transformer",
        summary="Classifies an image by self-attention between tokens, of which there are fewer from stage to stage.",
        inputs=[image],
        maps=maps,
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Pan, Zhuang, Liu, He, Cai (2021): Scalable Vision Transformers with Hierarchical Pooling. ICCV",
    )


PRESETS = {
    "tiny": tiny(d_model=8, layers=1, heads=2, d_hidden=12),
    "demo": preset(30, 64, 2e-3, patience=15, weight_decay=0.05),
    "full": preset(20, 64, 1e-3, patience=5, weight_decay=0.05, stages=3),
    # HVT-S-1 as it learns ImageNet, of grey pictures, but for pictures changed at random; the paper pools sooner.
    "paper": preset(300, 1024, 1e-3, weight_decay=0.025, patience=300).sized(
        patch=16, d_model=384, layers=6, heads=6, d_hidden=1536, dropout=0.0
    ),
}

HVT = classifying_pictures(HvtConfig, HierarchicalTransformer, card, PRESETS, builtin=digits.dataset)
HVT_WHOLE = HVT.changed(pooled=False)
