"""Cross-covariance image Transformer, M17 (El-Nouby et al. 2021): channels attend to each other, not patches.

Fig. 1 of the paper, from the left: patches; layers of cross-covariance attention, of convolutions over neighbouring
patches and of a network for each patch; layers in which a class token reads the patches (CaiT, Touvron et al. 2021b);
classes. Cost is linear in the number of patches, as in the paper. Ours: patches by a linear map; places of rows and of
columns side by side, without a map; and class layers leave patches as they are, as CaiT's do and the authors' code does
not.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention.weights import Weights, weights_of
from limelight_models.blocks.cross_covariance import CrossCovariance, LocalPatches
from limelight_models.blocks.layer_scale import Branch, ClassLayer, HiddenBranch
from limelight_models.blocks.patches import cut, grid_places
from limelight_models.blocks.transformer import VIT_EPSILON
from limelight_models.cards.language import Attends, ImageInput, maps_of, numbered, one
from limelight_models.data import digits
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, classifying_pictures, preset, tiny
from limelight_models.zoo.vision.patched import PatchedConfig


class XcitConfig(PatchedConfig):
    """Sizes. The paper's XCiT-S12 has patch 16, d_model 384, 12 layers, 8 heads, d_hidden 1536, 2 class layers.

    across: whether layers have attention; without, a patch meets its neighbours alone before the class token reads all.
    scale: of each branch to begin with (LayerScale).
    """

    class_layers: int = 2
    across: bool = True
    scale: float = 1.0

    @property
    def branch(self) -> dict[str, float]:
        """Fields that all branches of layers share."""
        return {"scale": self.scale, "dropout": self.dropout}


class Layer(nn.Module):
    """Attention between channels, neighbouring patches, then each patch by itself (§3.3).

    Shapes: [batch, patch, d] -> the same, weights [batch, head, channel, channel], None without attention.
    """

    def __init__(self, config: XcitConfig) -> None:
        super().__init__()
        d = config.d_model
        self.own = CrossCovariance(d_model=d, heads=config.heads) if config.across else None
        self.local = LocalPatches(d_model=d, grid=config.grid)
        self.add_own, self.add_local = (Branch(d_model=d, **config.branch) for _ in range(2))
        self.hidden = HiddenBranch(d_model=d, d_hidden=config.d_hidden, **config.branch)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of its attention, where it has one."""
        return () if self.own is None else weights_of(self.own)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        weights = None
        if self.own is not None:
            found, weights = self.own(self.add_own.norm(x))
            x = self.add_own(x, found)
        x = self.add_local(x, self.local(self.add_local.norm(x)))
        return self.hidden(x), weights


class CrossCovarianceTransformer(Network):
    """Image -> classes, with the weights between channels in every layer, and of the patches in every class layer.

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class], maps `encoder.<layer>.self` [batch,
        head, channel, channel], `class.<layer>.pool` [batch, head, 1, 1 + patch]; entry 0 is the class token.
    """

    def __init__(self, config: XcitConfig) -> None:
        super().__init__()
        self.config, d_model = config, config.d_model
        self.project = nn.Linear(config.pixels, d_model)
        self.class_token = nn.Parameter(torch.randn(1, 1, d_model) * 0.02)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.reading = nn.ModuleList(
            ClassLayer(d_model=d_model, heads=config.heads, d_hidden=config.d_hidden, **config.branch)
            for _ in range(config.class_layers)
        )
        self.norm = nn.LayerNorm(d_model, VIT_EPSILON)
        self.classify = nn.Linear(d_model, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        patches = self.project(cut(tensors["pixels"], self.config.patch))
        patches = self.dropout(patches + grid_places(self.config.grid, patches))
        maps: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            patches, weights = layer(patches)
            maps |= {} if weights is None else {f"encoder.{number}.self": weights}
        token = self.class_token.expand(patches.shape[0], -1, -1)
        for number, layer in enumerate(self.reading):
            token, maps[f"class.{number}.pool"] = layer(token, patches)
        return Answer({"logits": self.classify(self.norm(token[:, 0]))}, maps)


def card(network: CrossCovarianceTransformer, blueprint: Blueprint[XcitConfig]) -> Card:
    """Describe the transformer."""
    config = network.config
    image = ImageInput.of(config)
    channels = numbered("channels", "features", "channel", config.d_model // config.heads)
    patches = image.patches(config.patch, leading=("class",))
    own = {"encoder.{}.self": Attends(channels, channels, "What each channel of a head in layer {} is made of.")}
    read = {"class.{}.pool": Attends(one("picture"), patches, "What class layer {} reads; entry 0 is its token.")}
    return blueprint.card(
        network,
        title="Cross-covariance image Transformer",
        summary="Classifies an image by attention between channels, whose cost is linear in the number of patches.",
        inputs=[image],
        maps=(maps_of(network.layers, own) if config.across else {}) | maps_of(network.reading, read),
        taxonomy="multiplicative, self-attentive, multi-head",
        citation="El-Nouby, Touvron, Caron, Bojanowski, Douze, Joulin, Laptev, Neverova, Synnaeve, Verbeek, Jégou "
        "(2021): XCiT: Cross-Covariance Image Transformers. NeurIPS",
    )


PRESETS = {
    "tiny": tiny(d_model=8, layers=2, class_layers=1, heads=2, d_hidden=12),
    "demo": preset(15, 64, 2e-3, patience=15, weight_decay=0.05),
    "full": preset(20, 64, 1e-3, patience=5, weight_decay=0.05, patch=4),
    # XCiT-S12/16 as it learns ImageNet, of grey pictures, without its convolutions into patches and changed pictures.
    "paper": preset(400, 1024, 5e-4, weight_decay=0.05, patience=400).sized(
        patch=16, d_model=384, layers=12, heads=8, d_hidden=1536, dropout=0.0
    ),
}

XCIT = classifying_pictures(XcitConfig, CrossCovarianceTransformer, card, PRESETS, builtin=digits.dataset)
# What the paper leaves out to see what it is worth (§4.1).
XCIT_LOCAL = XCIT.changed(across=False)
