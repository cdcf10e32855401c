"""Peng et al. (2021), eq. 4 and 5; with gates the recurrence of §3.2, whose values are the tokens themselves."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder, sigmoid


def phi(attention: Any, head: int, x: Array) -> Array:
    """Sines and cosines of random projections of [token, d], of length 1."""
    w = array(attention.spread)[head] * array(attention.directions)
    x = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return np.concatenate([np.sin(x @ w.T), np.cos(x @ w.T)], -1) / np.sqrt(len(w))


def largest(total: Any) -> Any:
    """What is divided by: never near 0 (the authors' code)."""
    return np.maximum(np.abs(total), 0.01)


def gated(q: Array, k: Array, gates: Array) -> Array:
    """Weights [token, token], of features of one head: the sums over values that are the rows of the identity."""
    s, z, made = np.zeros((k.shape[1], len(k))), np.zeros(k.shape[1]), []
    for t, g in enumerate(gates):
        s = g * s + (1 - g) * np.outer(k[t], np.eye(len(k))[t])
        z = g * z + (1 - g) * k[t]
        made.append(q[t] @ s / largest(q[t] @ z))
    return np.array(made)


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def of_head(attention: Any, head: int, q: Array, k: Array) -> Array:
        asked, kept = phi(attention, head, q), phi(attention, head, k[:, : q.shape[1]])
        if network.config.gated:
            return gated(asked, kept, sigmoid(k[:, -1]))
        similar = np.tril(asked @ kept.T) if network.config.causal else asked @ kept.T
        return similar / largest(similar.sum(-1, keepdims=True))

    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        return np.array([of_head(attention, head, q[head], k[head]) for head in range(len(q))])

    return long_encoder(network, tensors, attend)
