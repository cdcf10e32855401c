"""El-Nouby et al. (2021), §3.2 and §3.3, and the class attention of Touvron et al. (2021b), §3."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, gelu, layernorm, linear, multi_head, patches, sines, softmax


def where(rows: int, columns: int, d: int) -> Array:
    """The place of each patch's row, then of its column."""
    down, across = (sines(range(size), d // 2) for size in (rows, columns))
    return np.array([np.concatenate([y, x]) for y in down for x in across])


def channels(layer: Any, x: Array) -> tuple[Array, Array]:
    """Head by head: a channel's row says of which channels of V it is made."""
    q, k, v = (np.split(linear(each, x), layer.heads, -1) for each in (layer.query_map, layer.key_map, layer.value_map))
    found, maps = [], []
    for head, sharpness in enumerate(array(layer.attention.score.sharpness)[:, 0, 0]):
        q_unit, k_unit = (each[head] / np.linalg.norm(each[head], axis=0) for each in (q, k))
        maps.append(softmax(sharpness * q_unit.T @ k_unit))
        found.append(v[head] @ maps[-1].T)
    return linear(layer.merge, np.concatenate(found, -1)), np.array(maps)


def depthwise(layer: Any, cells: Array) -> Array:
    """A 3 × 3 filter of each feature; zeros beyond the edge."""
    rows, columns, _ = cells.shape
    wide, filters = np.pad(cells, ((1, 1), (1, 1), (0, 0))), array(layer.weight)[:, 0]
    made = sum(filters[:, i, j] * wide[i : i + rows, j : j + columns] for i in range(3) for j in range(3))
    return made + array(layer.bias)


def neighbours(layer: Any, x: Array) -> Array:
    norm, cells = layer.norm, gelu(depthwise(layer.inner, x.reshape(*layer.grid, -1)))
    deviation = np.sqrt(array(norm.running_var) + norm.eps)
    normed = (cells - array(norm.running_mean)) / deviation * array(norm.weight) + array(norm.bias)
    return depthwise(layer.outer, normed).reshape(x.shape)


def hidden(layer: Any, x: Array) -> Array:
    made = linear(layer.layers[2], gelu(linear(layer.layers[0], layernorm(layer.add.norm, x))))
    return x + array(layer.add.gamma) * made


def read(layer: Any, token: Array, x: Array) -> tuple[Array, Array]:
    normed = layernorm(layer.add.norm, np.concatenate([token, x]))
    found, maps = multi_head(layer.attention, normed[:1], normed)
    token = token + array(layer.add.gamma) * found
    return hidden(layer.hidden, token), maps


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    x, maps = linear(network.project, patches(tensors["pixels"], network.config.patch)), {}
    x = x + where(*network.config.grid, x.shape[1])
    for number, layer in enumerate(network.layers):
        if layer.own is not None:
            made, maps[f"encoder.{number}.self"] = channels(layer.own, layernorm(layer.add_own.norm, x))
            x = x + array(layer.add_own.gamma) * made
        x = x + array(layer.add_local.gamma) * neighbours(layer.local, layernorm(layer.add_local.norm, x))
        x = hidden(layer.hidden, x)
    token = array(network.class_token)[0]
    for number, layer in enumerate(network.reading):
        token, maps[f"class.{number}.pool"] = read(layer, token, x)
    return {"logits": linear(network.classify, layernorm(network.norm, token))[0]} | maps
