"""Luo et al. (2021), §3, with the whole matrix of distances; beyond the farthest, they count as it does."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def phi(x: Array, omega: Array) -> Array:
        if network.config.normalised_vectors:
            x = x / np.sqrt((x**2).sum(-1, keepdims=True))
        else:
            x = x / x.shape[-1] ** 0.25
        return np.exp(x @ omega.T - (x**2).sum(-1, keepdims=True) / 2) / np.sqrt(len(omega))

    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        omega, b, farthest = array(attention.directions), array(attention.b), network.config.farthest
        count = q.shape[1]
        places = [[farthest + max(-farthest, min(farthest, j - i)) for j in range(count)] for i in range(count)]
        similar = phi(q, omega) @ phi(k, omega).transpose(0, 2, 1) * np.exp(b[:, places])
        similar = np.tril(similar) if network.config.causal else similar
        return similar / similar.sum(-1, keepdims=True)

    return long_encoder(network, tensors, attend)
