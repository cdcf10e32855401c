"""Vision Transformer, L7 (Dosovitskiy et al. 2021): an image is worth 16 × 16 words.

Fig. 1 of the paper, from the bottom: patches, linear projection, class token and positions, encoder, classes.
"""

from torch import Tensor, nn

from limelight_models.cards.hidden import named_states
from limelight_models.cards.language import Attends, ImageInput, maps_of
from limelight_models.data import digits
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, classifying_pictures, preset, tiny
from limelight_models.zoo.vision.patched import PatchedConfig, PatchEncoder


class VitConfig(PatchedConfig):
    """Sizes. The paper's base model has patch 16, d_model 768, 12 layers, 12 heads, d_hidden 3072."""


class VisionTransformer(Network):
    """Image -> classes, with the weights between all patches, in every layer and head.

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class],
        maps `encoder.<layer>.self` [batch, head, 1 + patch, 1 + patch], with scores and norms; entry 0 is the class
        token.
    """

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = PatchEncoder(config)
        self.classify = nn.Linear(config.d_model, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        features, maps, states = self.encoder(tensors["pixels"])
        return Answer({"logits": self.classify(features[:, 0]), **named_states("encoder", states)}, maps)


def card(network: VisionTransformer, blueprint: Blueprint[VitConfig]) -> Card:
    """Describe the transformer."""
    config = network.config
    image = ImageInput.of(config)
    patches = image.patches(config.patch, leading=("class",))
    shown = Attends(patches, patches, "What each patch of layer {} looks at; entry 0 is the class token.")
    return blueprint.card(
        network,
        title="Vision Transformer",
        summary="Classifies an image by self-attention between its patches.",
        inputs=[image],
        maps=maps_of(network.encoder.layers, {"encoder.{}.self": shown}),
        hidden={"encoder": config.d_model},
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Dosovitskiy, Beyer, Kolesnikov, Weissenborn, Zhai, Unterthiner, Dehghani, Minderer, Heigold, "
        "Gelly, Uszkoreit, Houlsby (2021): An Image is Worth 16x16 Words: Transformers for Image Recognition at "
        "Scale. ICLR",
    )


PRESETS = {
    "tiny": tiny(d_model=8, layers=2, heads=2, d_hidden=12),
    "demo": preset(30, 64, 2e-3, patience=15, weight_decay=0.05),
    "full": preset(20, 64, 1e-3, patience=5, weight_decay=0.05, patch=4),
    # ViT-B/16 as it learns ImageNet alone (Table 3), of grey pictures of 224 × 224; the paper's batches are of 4096.
    "paper": preset(300, 512, 3e-3, weight_decay=0.3, patience=300).sized(
        patch=16, d_model=768, layers=12, heads=12, d_hidden=3072
    ),
}

VIT = classifying_pictures(VitConfig, VisionTransformer, card, PRESETS, builtin=digits.dataset)
