"""Roy et al. (2021), §4, Algorithm 1 without a causal mask: half of the heads see a window, half their clusters."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder, softmax


def normalised(x: Array) -> Array:
    """Layer normalisation without parameters, of PyTorch's ε."""
    away = x - x.mean(-1, keepdims=True)
    return away / np.sqrt((away**2).mean(-1, keepdims=True) + 1e-5)


def nearest(centroid: Array, x: Array, w: int) -> list[int]:
    """The positions whose products with a centroid are the w largest."""
    return sorted(range(len(x)), key=lambda place: -float(centroid @ x[place]))[:w]


def routed(centroids: Array, q: Array, k: Array) -> Array:
    """Weights of a head, over its clusters."""
    count, d = q.shape
    q, k = normalised(q), normalised(k)
    found, times = np.zeros((count, count)), np.zeros(count)
    for centroid in centroids:
        w = -(-count // len(centroids))
        keys = nearest(centroid, k, w)
        for i in nearest(centroid, q, w):
            found[i, keys] += softmax(k[keys] @ q[i] / np.sqrt(d))
            times[i] += 1
    return found / np.maximum(times, 1)[:, None]


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        away = np.abs(np.subtract.outer(np.arange(q.shape[1]), np.arange(q.shape[1])))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        weights = softmax(np.where(away > network.config.window, -np.inf, scores))
        if network.config.clusters:
            half = len(q) // 2
            for head, centroids in enumerate(array(attention.parts[1].centroids)):
                weights[half + head] = routed(centroids, q[half + head], k[half + head])
        return weights

    return long_encoder(network, tensors, attend)
