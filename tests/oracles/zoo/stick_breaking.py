"""Tan et al. (2024), §2: a stick of length 1 for each token, broken by those before it, the nearest first."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, long_encoder, sigmoid, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        if network.config.softmax:
            return softmax(np.where(np.tri(len(scores[0])) > 0, scores, -np.inf))
        weights = np.zeros_like(scores)
        for h, i in np.ndindex(weights.shape[:2]):
            stick = 1.0
            for j in reversed(range(i)):
                weights[h, i, j] = stick * sigmoid(scores[h, i, j])
                stick -= weights[h, i, j]
        return weights

    return long_encoder(network, tensors, attend)
