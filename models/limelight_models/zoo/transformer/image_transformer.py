"""Image Transformer, L6 (Parmar et al. 2018): a picture is written pixel by pixel, each of which looks at those near.

Fig. 1 and §3.2 of the paper, the one-dimensional form: pixels in raster order are cut into blocks, and those of a block
attend to its memory, the block itself up to the pixel and some pixels before it. Ours: places are learned, levels are
one embedding, text is as in `image_gpt`, and the mask leaves out what is not in memory: scores are computed of all.
"""

from torch import Tensor, nn

from limelight_models.attention.cached import KVCache
from limelight_models.attention.masks import Mask, causal, memory
from limelight_models.data import pixels
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.tasks.generate import Continue
from limelight_models.zoo.transformer.decoder import Block, Decoder, DecoderConfig, continuing, parts


class ImageTransformerConfig(DecoderConfig):
    """Sizes. The paper's model of CIFAR-10 has 12 layers, d_model 512, 4 heads, d_hidden 2048 and memory of 256.

    size: of a block, in tokens. before: tokens of the memory before the block. whole: attend to all pixels before.
    """

    layers: int = 4
    d_hidden: int = 128
    max_prompt: int = 80
    max_new_tokens: int = 72
    size: int = 9
    before: int = 9
    whole: bool = False

    @property
    def looks(self) -> Mask:
        return causal if self.whole else memory(self.size, self.before)

    def act(self) -> nn.Module:
        return nn.ReLU()

    def block(self) -> Block:
        return LocalBlock(self)

    def last(self) -> nn.Module:
        """None behind the layers: each ends with one."""
        return nn.Identity()


class LocalBlock(Block):
    """q_a = norm(q + dropout(attend(q, M)));  q' = norm(q_a + dropout(W₁ relu(W₂ q_a))) (§3.1, eq. 1 and 2).

    M is the memory of the block that q is in.

    Shapes: as `Block`.
    """

    def forward(self, features: Tensor, *mask: Tensor) -> tuple[Tensor, Tensor, KVCache]:
        attended, weights, kept = self.attention(features)
        return self.fed(self.attention_norm(features + self.dropout(attended))), weights, kept

    def step(self, features: Tensor, kept: KVCache, position: Tensor) -> tuple[Tensor, Tensor, KVCache]:
        attended, weights, new = self.attention.step(features, kept, position)
        return self.fed(self.attention_norm(features + attended)), weights, new

    def fed(self, features: Tensor) -> Tensor:
        fed: Tensor = self.hidden_norm(features + self.dropout(self.hidden(features)))
        return fed


def card(network: Decoder, blueprint: Blueprint[ImageTransformerConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Image Transformer",
        summary="Writes a picture pixel by pixel, or what is missing of it, looking at those just before each.",
        taxonomy="scaled multiplicative, alignment: local, self-attentive, multi-head",
        citation="Parmar, Vaswani, Uszkoreit, Kaiser, Shazeer, Ku, Tran (2018): Image Transformer. ICML",
        **parts(network, blueprint, pixels.PROMPTED),
    )


PRESETS = {
    "tiny": tiny(d_model=16, layers=2, heads=2, d_hidden=16, size=4, before=2),
    "demo": preset(20, 32, 2e-3, patience=4),
    "full": preset(40, 64, 1e-3, patience=4).sized(d_model=256, layers=8, heads=8, d_hidden=1024, dropout=0.2),
    # Of CIFAR-10 (§5.1), of grey pictures: 32 × 32 pixels and line breaks.
    "paper": preset(20, 128, 1e-3, patience=20).sized(
        d_model=512, layers=12, heads=4, d_hidden=2048, dropout=0.3, size=256, before=256, max_prompt=1056,
        max_new_tokens=1056, max_characters=10_000,
    ),
}  # fmt: skip

IMAGE_TRANSFORMER = continuing(ImageTransformerConfig, card, PRESETS, task=Continue(), builtin=pixels.dataset)
IMAGE_TRANSFORMER_WHOLE = IMAGE_TRANSFORMER.changed(whole=True)
