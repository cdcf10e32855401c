"""Image GPT, L6 (Chen et al. 2020): a picture is written pixel by pixel, as a text is, and each looks at all before it.

§2 and §3 of the paper: GPT-2 over grey levels in raster order, with norms that take no mean away and another gelu, as
the authors' code has them. Ours: scores are products with the embeddings of the levels; between rows are line breaks,
so that what is written shows the picture; and before it stands a line that says its class.
"""

from torch import Tensor, nn

from limelight_models.data import pixels
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.tasks.generate import Continue
from limelight_models.zoo.transformer.decoder import Decoder, DecoderConfig, continuing, parts


class ImageGptConfig(DecoderConfig):
    """Sizes. The paper's iGPT-S has 24 layers, d_model 512, 8 heads, 512 colours and 32 x 32 pixels."""

    layers: int = 4
    d_hidden: int = 128
    max_prompt: int = 80
    max_new_tokens: int = 72

    def norm(self) -> nn.Module:
        """x / √(mean x² + ε), scaled."""
        return nn.RMSNorm(self.d_model, 1e-5)

    def act(self) -> nn.Module:
        """x σ(1.702 x)."""
        return QuickGelu()


class QuickGelu(nn.Module):
    """x σ(1.702 x) (Hendrycks & Gimpel 2016, §2). Shapes: […] -> the same."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (1.702 * x).sigmoid()


def card(network: Decoder, blueprint: Blueprint[ImageGptConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Image GPT",
        summary="Writes a picture pixel by pixel, or what is missing of it, looking back at all pixels before each.",
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Chen, Radford, Child, Wu, Jun, Luan, Sutskever (2020): Generative Pretraining from Pixels. ICML",
        **parts(network, blueprint, pixels.PROMPTED),
    )


PRESETS = {
    "tiny": tiny(d_model=16, layers=2, heads=2, d_hidden=16),
    "demo": preset(20, 32, 2e-3, patience=4),
    "full": preset(40, 64, 1e-3, patience=4).sized(d_model=256, layers=8, heads=8, d_hidden=1024, dropout=0.2),
    # iGPT-S as it learns pictures of 32 × 32 pixels (§3.3), which are grey here.
    "paper": preset(20, 128, 3e-3, patience=20).sized(
        d_model=512, layers=24, heads=8, d_hidden=2048, max_prompt=1056, max_new_tokens=1056, max_characters=10_000
    ),
}

IMAGE_GPT = continuing(ImageGptConfig, card, PRESETS, task=Continue(), builtin=pixels.dataset)
