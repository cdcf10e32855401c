"""Katharopoulos et al. (2020), §3.2: eq. 4 and 7; of the causal form eq. 8."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, long_encoder, softmax


def phi(x: Array) -> Array:
    """elu(x) + 1."""
    return np.where(x > 0, x + 1, np.exp(x))


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        if network.config.softmax:
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
            return softmax(np.where(np.tri(len(scores[0])) > 0, scores, -np.inf) if network.config.causal else scores)
        similar = phi(q) @ phi(k).transpose(0, 2, 1)
        similar = np.tril(similar) if network.config.causal else similar
        return similar / similar.sum(-1, keepdims=True)

    return long_encoder(network, tensors, attend)
