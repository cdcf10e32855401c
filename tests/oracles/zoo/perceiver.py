"""Jaegle et al. (2021), §3: latents ask pixels and places, then each other, in rounds; their mean is judged."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, gelu, layernorm, linear, multi_head, patches, pre_norm


def places(size: int, bands: int) -> Array:
    """Of a side: x from -1 to 1, sines, cosines, of frequencies equally spaced from 1 to half the size."""
    frequencies = np.linspace(1, size / 2, bands)
    angles = np.pi * np.outer(np.linspace(-1, 1, size), frequencies)
    return np.column_stack([np.linspace(-1, 1, size), np.sin(angles), np.cos(angles)])


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config, maps = network.config, {}
    own = patches(tensors["pixels"], config.patch)
    down, across = places(config.rows, config.bands), places(config.columns, config.bands)
    x = np.array([[*own[row * len(across) + column], *down[row], *across[column]]
                  for row in range(len(down)) for column in range(len(across))])  # fmt: skip
    z = array(network.latents.query)[0]
    for turn in range(config.rounds):
        part = turn if config.apart else 0
        ask = network.asking[part]
        made, maps[f"input.{turn}.cross"] = multi_head(
            ask.attention, layernorm(ask.latent_norm, z), layernorm(ask.input_norm, x)
        )
        z = z + made
        z = z + linear(ask.hidden[3], gelu(linear(ask.hidden[1], layernorm(ask.hidden[0], z))))
        for number, layer in enumerate(network.thinking[part * config.layers : (part + 1) * config.layers]):
            z, found = pre_norm(layer, z, f"latents.{turn * config.layers + number}.self")
            maps |= found
    return {"logits": linear(network.classify, z.mean(0)), **maps}
