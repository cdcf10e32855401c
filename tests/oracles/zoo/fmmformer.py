"""Nguyen et al. (2021), §2: a band of softmax weights and kernels, whose rows are divided by their sums, blended."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder, softmax


def phi(x: Array) -> Array:
    """elu(x) + 1."""
    return np.where(x > 0, x + 1, np.exp(x))


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        away = np.abs(np.subtract.outer(np.arange(q.shape[1]), np.arange(q.shape[1])))
        fields = []
        if band := network.config.band:
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
            fields.append(softmax(np.where(away > band, -np.inf, scores)))
        for sign in (1, -1)[: network.config.kernels]:
            similar = phi(sign * q) @ phi(sign * k).transpose(0, 2, 1)
            fields.append(similar / similar.sum(-1, keepdims=True))
        return sum(w * field for w, field in zip(array(attention.blend), fields, strict=True))

    return long_encoder(network, tensors, attend)
