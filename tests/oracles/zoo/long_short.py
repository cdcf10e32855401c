"""Zhu et al. (2021), §3: dynamic projection and a window, whose two norms are of keys alone."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, layernorm, long_encoder, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        heads, count, d = q.shape
        weights = np.zeros((heads, count, count))
        for head in range(heads):
            p = softmax(k[head, :, d:].T)  # Pᵀ [r, token]
            near, far = k[head, :, :d], p @ k[head, :, :d]
            if network.config.norms:
                near, far = layernorm(attention.near_norm, near), layernorm(attention.far_norm, far)
            for i in range(count):
                window = [j for j in range(count) if abs(i - j) <= network.config.window]
                shared = softmax(np.concatenate([near[window], far]) @ q[head, i] / np.sqrt(d))
                weights[head, i, window] = shared[: len(window)]
                weights[head, i] += shared[len(window) :] @ p
        return weights

    return long_encoder(network, tensors, attend)
