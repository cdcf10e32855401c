"""Perceiver, L20 (Jaegle et al. 2021): a few latents ask every pixel, and think among themselves, several times.

Fig. 1 of the paper. Pixels go in as they are, with Fourier features of their places. Each round asks the same picture
anew, with the same weights (§3.1), or in `perceiver-apart` with its own.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.queries.learned import LearnedQuery
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.attention.weights import AroundAttention
from limelight_models.blocks.patches import cut
from limelight_models.blocks.transformer import EncoderLayer
from limelight_models.cards.language import Attends, ImageInput, Map, maps_of, numbered
from limelight_models.data import digits
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, classifying_pictures, preset, tiny
from limelight_models.zoo.vision.patched import PatchedConfig


class PerceiverConfig(PatchedConfig):
    """Sizes. layers: of latents in a round. bands: frequencies of places. apart: whether rounds have own weights."""

    patch: int = 1
    latents: int = 16
    rounds: int = 2
    layers: int = 2
    cross_heads: int = 1
    bands: int = 4
    apart: bool = False

    @property
    def d_input(self) -> int:
        """Numbers of a pixel: its own, its row and column, their sines and cosines."""
        return self.pixels + 2 * (2 * self.bands + 1)


class Asking(AroundAttention, nn.Module):
    """Z' = Z + Attn(norm(Z), norm(X));  Z'' = Z' + W₂ gelu(W₁ norm(Z')) (§3.1 and appendix).

    Shapes: latents [batch, latent, d_model], inputs [batch, pixel, d_input] -> latents, weights [batch, head, latent,
        pixel].
    """

    def __init__(self, config: PerceiverConfig) -> None:
        super().__init__()
        d, hidden = config.d_model, config.d_hidden
        self.latent_norm, self.input_norm = nn.LayerNorm(d), nn.LayerNorm(config.d_input)
        self.attention = MultiHead(
            attention=Attention(score=ScaledDot()), d_model=d, heads=config.cross_heads, d_key=config.d_input
        )
        self.hidden = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, hidden), nn.GELU(), nn.Linear(hidden, d))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, latents: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        found, weights = self.attention(self.latent_norm(latents), self.input_norm(inputs))
        latents = latents + self.dropout(found)
        return latents + self.dropout(self.hidden(latents)), weights


def fourier(grid: tuple[int, int], bands: int, like: Tensor) -> Tensor:
    """x, sin(f_b π x), cos(f_b π x) of each cell's row and column x in [-1, 1], f from 1 to half their number (§3.2).

    Shapes: [cell, 2 · (2 · bands + 1)], row by row, in the dtype of `like`.
    """
    sides = []
    for size in grid:
        place = torch.arange(size, dtype=like.dtype, device=like.device) * (2 / max(size - 1, 1)) - 1
        step = (size / 2 - 1) / max(bands - 1, 1)
        angles = place.unsqueeze(-1) * (torch.arange(bands, dtype=like.dtype, device=like.device) * step + 1) * torch.pi
        sides.append(torch.cat([place.unsqueeze(-1), angles.sin(), angles.cos()], -1))
    down, across = sides
    both = [down.unsqueeze(1).expand(-1, grid[1], -1), across.expand(grid[0], -1, -1)]
    return torch.cat(both, -1).flatten(0, 1)


class Perceiver(Network):
    """Image -> classes, with what the latents ask of the pixels, and of each other.

    y = W mean(Z) + b, Z the latents of the last round

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class], maps `input.<round>.cross` [batch,
        head, latent, pixel], `latents.<layer>.self` [batch, head, latent, latent], layers counted through all rounds,
        with scores and norms.
    """

    def __init__(self, config: PerceiverConfig) -> None:
        super().__init__()
        self.config, sets = config, config.rounds if config.apart else 1
        sizes = {name: getattr(config, name) for name in ("d_model", "heads", "d_hidden", "dropout")}
        self.latents = LearnedQuery(d_q=config.d_model, count=config.latents)
        self.asking = nn.ModuleList(Asking(config) for _ in range(sets))
        self.thinking = nn.ModuleList(EncoderLayer(**sizes) for _ in range(sets * config.layers))
        self.classify = nn.Linear(config.d_model, config.classes)

    def rounds(self) -> list[tuple[nn.Module, list[tuple[int, nn.Module]]]]:
        """Of each round, what asks, and what thinks, with its number through all rounds."""
        made, each = [], self.config.layers
        for turn in range(self.config.rounds):
            own = turn % len(self.asking)
            thinking = self.thinking[own * each : (own + 1) * each]
            made.append((self.asking[own], list(enumerate(thinking, turn * each))))
        return made

    def forward(self, **tensors: Tensor) -> Answer:
        pixels = cut(tensors["pixels"], self.config.patch)
        places = fourier(self.config.grid, self.config.bands, pixels).expand(pixels.shape[0], -1, -1)
        inputs, latents = torch.cat([pixels, places], -1), self.latents(pixels).squeeze(1)
        maps: dict[str, Tensor] = {}
        for turn, (asking, thinking) in enumerate(self.rounds()):
            latents, maps[f"input.{turn}.cross"] = asking(latents, inputs)
            for number, layer in thinking:
                latents, looks = layer(latents)
                maps |= looks.maps(f"latents.{number}.self")
        return Answer({"logits": self.classify(latents.mean(1))}, maps)


def card(network: Perceiver, blueprint: Blueprint[PerceiverConfig]) -> Card:
    """Describe the network."""
    config = network.config
    image = ImageInput.of(config)
    latents, pixels = numbered("latents", "latents", "latent", config.latents), image.patches(config.patch)
    maps: dict[str, Map] = {}
    for turn, (asking, thinking) in enumerate(network.rounds()):
        asked = Attends(latents, pixels, f"What each latent asks of the picture in round {turn}.")
        maps |= maps_of(asking, {f"input.{turn}.cross": asked})
        for number, layer in thinking:
            shown = Attends(latents, latents, f"What each latent reads of the others in layer {number}.")
            maps |= maps_of(layer, {f"latents.{number}.self": shown})
    return blueprint.card(
        network,
        title="Perceiver",
        summary="Classifies an image by a few latents that ask all of its pixels.",
        inputs=[image],
        maps=maps,
        taxonomy="scaled multiplicative, specialised, self-attentive, multi-head, multi-hop",
        citation="Jaegle, Gimeno, Brock, Zisserman, Vinyals, Carreira (2021): Perceiver: General Perception with "
        "Iterative Attention. ICML",
    )


PRESETS = {
    "tiny": tiny(d_model=8, layers=1, heads=2, d_hidden=12, latents=3, bands=2),
    "demo": preset(15, 64, 2e-3, patience=15, weight_decay=0.05),
    "full": preset(20, 64, 1e-3, patience=5, weight_decay=0.05).sized(d_model=128, latents=32, layers=4, heads=8),
    # Its model of ImageNet (§4.1), of grey pictures: 512 latents ask 8 times, with 6 layers of 8 heads in between.
    "paper": preset(120, 1024, 4e-3, weight_decay=0.1, patience=120).sized(
        d_model=1024, d_hidden=1024, latents=512, rounds=8, layers=6, heads=8, bands=64, dropout=0.0
    ),
}

PERCEIVER = classifying_pictures(PerceiverConfig, Perceiver, card, PRESETS, builtin=digits.dataset)
PERCEIVER_APART = PERCEIVER.changed(apart=True)
# One look at the picture, which the paper compares several with (appendix).
PERCEIVER_ONCE = PERCEIVER.changed(rounds=1)
