"""Su et al. (2021), eq. 15: pairs of features as complex numbers; Press et al. (2021), §3; Ainslie et al. (2023)."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, linear, long_layers, post_norm, softmax, split


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    sizes = network.config

    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own, heads = layer.attention, sizes.heads
        q, (k, v) = split(own.query_map, x, heads), (split(m, x, sizes.groups) for m in (own.key_map, own.value_map))
        maps, found, half = np.zeros((heads, len(x), len(x))), [], q.shape[-1] // 2
        for h in range(heads):
            group = h * sizes.groups // heads
            for i in range(len(x)):
                scores = k[group, : i + 1] @ q[h, i]
                if sizes.positions == "rotary":
                    a, b = (each[..., :half] + 1j * each[..., half:] for each in (q[h, i], k[group, : i + 1]))
                    apart = np.array([[(i - j) / 10_000 ** (f / half) for f in range(half)] for j in range(i + 1)])
                    scores = (a * np.exp(1j * apart) * b.conj()).real.sum(-1)
                scores = scores / np.sqrt(2 * half)
                if sizes.positions == "bias":
                    scores = scores - 2 ** (-8 * (h + 1) / heads) * np.arange(i, -1, -1)
                maps[h, i, : i + 1] = softmax(scores)
            found.append(maps[h] @ v[group])
        return post_norm(layer, x, linear(own.merge, np.concatenate(found, -1))), maps

    return long_layers(network, tensors, run)
