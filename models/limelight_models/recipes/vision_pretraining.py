"""Pretraining of a vision encoder on the names of digits, in the place of the papers' pretraining on objects.

Xu et al. (2015), Lu et al. (2016) and Li et al. (2019) take features of networks that had learned ImageNet, Yu et al.
(2019) those of a detector taught with boxes and names. Here it is captions of the canvas world: each cell learns to
name the digit whose box it lies in. They are drawn with handwritten digits of the training part.
"""

import io
import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image as Picture
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from limelight_bundle.values import Array, Image, Text
from limelight_models.blocks.cells import Cells, contrast
from limelight_models.data.canvas import captions
from limelight_models.data.canvas.world import SIZE, WORDS
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Box, Span
from limelight_models.recipes.device import device_of
from limelight_models.recipes.recipe import Blueprint

_PICTURES, _EPOCHS, _BATCH, _RATE = 16_000, 4, 32, 5e-3
_GROUND = len(WORDS)
_ENOUGH = 0.25  # of a cell


class Seeing(Protocol):
    """A network with an eye."""

    @property
    def cells(self) -> Cells: ...


class EyeConfig(Protocol):
    """Config of the image encoder, and whether it is pretrained."""

    @property
    def taught(self) -> bool: ...
    @property
    def channels(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def mean(self) -> tuple[float, ...]: ...
    @property
    def deviation(self) -> tuple[float, ...]: ...


def learn_to_see(network: Seeing, dataset: Dataset, blueprint: Blueprint[Any]) -> None:
    """Teach a network's cells the names of digits, where its config says so."""
    config: EyeConfig = blueprint.config
    if not config.taught:
        return
    made = captions.dataset(training=_PICTURES, held_out=1).train
    layers = network.cells.layers
    device = device_of(layers)
    pixels, named = (each.to(device) for each in read(made, config))
    name = nn.Conv2d(config.channels[-1], len(WORDS) + 1, 1).to(device)
    optimizer = torch.optim.AdamW([*layers.parameters(), *name.parameters()], lr=_RATE, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0.02, _EPOCHS * -(-len(made) // _BATCH))
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(made)).to(device).split(_BATCH):
            optimizer.zero_grad()
            cross_entropy(name(layers(pixels[batch])), named[batch]).backward()
            optimizer.step()
            schedule.step()


def read(examples: Sequence[Example], config: EyeConfig) -> tuple[Tensor, Tensor]:
    """The contrast of pictures float32 [example, 1, row, column], and the name of each cell int64 [example, row of
    cells, column of cells].
    """
    pixels = torch.from_numpy(np.stack([_pixels(each) for each in examples])[:, None])
    cell = math.prod(config.strides)
    named = np.stack([names(each, cell) for each in examples])
    return contrast((pixels / 255 - config.mean[0]) / config.deviation[0]), torch.from_numpy(named)


def _pixels(example: Example) -> Array:
    image = example.instance["image"]
    assert isinstance(image, Image)
    return np.asarray(Picture.open(io.BytesIO(image.data)), np.float32)


def names(example: Example, cell: int) -> Array:
    """Which digit each cell of so many pixels shows, by its number; 10 where it shows none."""
    text = example.instance["target"]
    assert isinstance(text, Text)
    found = np.full((SIZE // cell, SIZE // cell), _GROUND, np.int64)
    edges = np.arange(SIZE // cell) * cell
    for gold in example.gold:
        (box,) = gold.keys
        assert isinstance(box, Box) and isinstance(gold.of, Span)
        down, across = (
            np.clip(np.minimum(edges + cell, end) - np.maximum(edges, start), 0, None)
            for start, end in ((box.top, box.bottom), (box.left, box.right))
        )
        found[np.outer(down, across) >= _ENOUGH * cell**2] = WORDS.index(text.text[gold.of.start : gold.of.end])
    return found
