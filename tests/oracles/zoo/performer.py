"""Choromanski et al. (2021): eq. 5 to 7, as they stand, without what keeps exponentials small."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder


def phi(x: Array, omega: Array, trigonometric: bool) -> Array:
    """Features of [head, token, d], scaled as the softmax's products are."""
    x = x / x.shape[-1] ** 0.25
    half = (x**2).sum(-1, keepdims=True) / 2
    if trigonometric:
        return np.exp(half) / np.sqrt(len(omega)) * np.concatenate([np.sin(x @ omega.T), np.cos(x @ omega.T)], -1)
    return np.exp(-half) / np.sqrt(len(omega)) * np.exp(x @ omega.T)


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        omega, trigonometric = array(attention.directions), network.config.trigonometric
        similar = phi(q, omega, trigonometric) @ phi(k, omega, trigonometric).transpose(0, 2, 1)
        similar = np.tril(similar) if network.config.causal else similar
        return similar / similar.sum(-1, keepdims=True)

    return long_encoder(network, tensors, attend)
