"""Ye et al. (2024), §2.1: eq. 1 to 3, a head of a token at a time."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, long_layers, post_norm, softmax, split


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    number = iter(range(network.config.layers))

    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own, begins = layer.attention, 0.8 - 0.6 * np.exp(-0.3 * next(number))
        q, k, v = (split(each, x, own.heads) for each in (own.query_map, own.key_map, own.value_map))
        d, maps, found = q.shape[-1] // 2, np.zeros((own.heads, len(x), len(x))), np.zeros_like(v)
        for h, i in np.ndindex(found.shape[:2]):
            if network.config.softmax:
                maps[h, i, : i + 1] = softmax(k[h, : i + 1] @ q[h, i] / np.sqrt(2 * d))
                found[h, i] = maps[h, i] @ v[h]
                continue
            first, second = (
                softmax(k[h, : i + 1, part] @ q[h, i, part] / np.sqrt(d)) for part in (np.s_[:d], np.s_[d:])
            )
            factor = own.attention.factor
            one, two = np.exp((array(factor.query) * array(factor.key)).sum(-1))
            maps[h, i, : i + 1] = first - (one - two + begins) * second
            read = maps[h, i] @ v[h]
            found[h, i] = (1 - begins) * read / np.sqrt((read**2).mean() + 1e-5)
        return post_norm(layer, x, linear(own.merge, np.concatenate([*found], -1))), maps

    return long_layers(network, tensors, run)
