"""Ramachandran et al. (2019), §3: pixel by pixel, over the window that is inside of the picture."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, patches, relu, softmax, split


def norm(layer: Any, x: Array) -> Array:
    """By running figures, feature by feature."""
    away = (x - array(layer.running_mean)) / np.sqrt(array(layer.running_var) + layer.eps)
    return away * array(layer.weight) + array(layer.bias)


def mixed(layers: Any, x: Array) -> Array:
    """A 1 × 1 convolution, then a norm."""
    return norm(layers[1], x @ array(layers[0].weight)[:, :, 0].T)


def window(heads: Any, x: Array, grid: tuple[int, int]) -> tuple[Array, Array]:
    """What heads give of pixels, and their weights."""
    (rows, columns), reach, offsets = grid, heads.attention.reach, [array(each) for each in heads.attention.offsets]
    q, k, v = (split(each, x, heads.heads) for each in (heads.query_map, heads.key_map, heads.value_map))
    maps, half = np.zeros((len(q), len(x), len(x))), q.shape[-1] // 2
    for h, i, j in np.ndindex(len(q), rows, columns):
        o = i * columns + j
        near = [
            (a, b)
            for a in range(max(i - reach, 0), min(i + reach + 1, rows))
            for b in range(max(j - reach, 0), min(j + reach + 1, columns))
        ]
        scores = []
        for a, b in near:
            scores.append(q[h, o] @ k[h, a * columns + b])
            if offsets:
                scores[-1] += q[h, o, :half] @ offsets[0][h, a - i + reach]
                scores[-1] += q[h, o, half:] @ offsets[1][h, b - j + reach]
        maps[h, o, [a * columns + b for a, b in near]] = softmax(np.array(scores))
    return linear(heads.merge, np.concatenate([*(maps @ v)], -1)), maps


def network_of(network: Any, tensors: Tensors, attends: Any) -> dict[str, Array]:
    """Bottlenecks; attends: by the name of a map, what its heads give and their weights."""
    config, maps = network.config, {}
    x, (rows, columns) = linear(network.project, patches(tensors["pixels"], config.patch)), config.grid
    for number, layer in enumerate(network.layers):
        if number and number % config.layers == 0:
            x = x.reshape(rows // 2, 2, columns // 2, 2, -1).mean((1, 3)).reshape(len(x) // 4, -1)
            rows, columns = rows // 2, columns // 2
        found = relu(mixed(layer.inner, x))
        for name, heads in layer.attentions.items():
            found, maps[f"encoder.{number}.{name}"] = attends[name](heads, found, (rows, columns))
        found = mixed(layer.outer[2:], relu(norm(layer.outer[0], found)))
        x = relu((mixed(layer.across, x) if len(layer.across) else x) + found)
    return {"logits": linear(network.classify, x.mean(0)), **maps}


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    return network_of(network, tensors, {"self": window})
