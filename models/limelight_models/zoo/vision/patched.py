"""Shared parts of Vision Transformers (Dosovitskiy et al. 2021): pictures in patches, and an encoder of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.blocks.patches import cut
from limelight_models.blocks.transformer import VIT_EPSILON, EncoderLayer
from limelight_models.recipes import Sizes


class PatchedConfig(Sizes):
    """Sizes of a network that reads pictures in patches.

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

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.rows // self.patch, self.columns // self.patch

    @property
    def pixels(self) -> int:
        """Numbers in a patch."""
        return len(self.mean) * self.patch**2


class Encoded(NamedTuple):
    """Normalised features [batch, leading + patch, d_model], maps by name, and hidden states: what each layer read, and
    the features.
    """

    features: Tensor
    maps: Mapping[str, Tensor]
    states: Sequence[Tensor]


class PatchEncoder(nn.Module):
    """Learned tokens and patches with their places, through layers of self-attention (eq. 1–3).

    leading: how many tokens stand before the patches.

    Shapes: pixels float32 [batch, channel, row, column] -> Encoded, with maps `encoder.<layer>.self` [batch, head,
        leading + patch, leading + patch] with scores and norms.
    """

    def __init__(self, config: PatchedConfig, *, leading: int = 1) -> None:
        super().__init__()
        d_model, (rows, columns) = config.d_model, config.grid
        self.patch = config.patch
        self.project = nn.Linear(config.pixels, d_model)
        self.leading = nn.Parameter(torch.randn(1, leading, d_model) * 0.02)
        self.position = nn.Parameter(torch.randn(1, leading + rows * columns, d_model) * 0.02)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(
                d_model=d_model,
                heads=config.heads,
                d_hidden=config.d_hidden,
                dropout=config.dropout,
                epsilon=VIT_EPSILON,
            )
            for _ in range(config.layers)
        )
        self.norm = nn.LayerNorm(d_model, VIT_EPSILON)

    def forward(self, pixels: Tensor) -> Encoded:
        patches = self.project(cut(pixels, self.patch))
        features = torch.cat([self.leading.expand(patches.shape[0], -1, -1), patches], dim=1)
        states = [self.dropout(features + self.position)]
        maps: dict[str, Tensor] = {}
        for number, layer in enumerate(self.layers):
            features, looks = layer(states[-1])
            states.append(features)
            maps |= looks.maps(f"encoder.{number}.self")
        states[-1] = self.norm(states[-1])
        return Encoded(states[-1], maps, states)
