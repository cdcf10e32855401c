"""Lu et al. (2021), §3: the Gaussian kernel, its decomposition, Newton's inverse (Algorithm 1); landmarks are means."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, long_encoder


def kernel(first: Array, second: Array) -> Array:
    return np.array([[np.exp(-np.sum((x - y) ** 2) / (2 * np.sqrt(len(x)))) for y in second] for x in first])


def inverse(a: Array) -> Array:
    found = a / np.linalg.norm(a, 1) ** 2
    for _ in range(20):
        found = 2 * found - found @ a @ found
    return found


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        maps, segments = [], network.config.landmarks
        np.testing.assert_array_equal(q, k)
        for q_h in q:
            places = np.arange(len(q_h)) * segments // len(q_h)
            pooled = np.stack([q_h[places == each].mean(0) for each in np.unique(places)])
            beside = kernel(pooled, q_h)
            maps.append(beside.T @ inverse(kernel(pooled, pooled)) @ beside)
        return np.stack(maps)

    return long_encoder(network, tensors, attend)
