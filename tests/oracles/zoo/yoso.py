"""Zeng et al. (2021), §3: shares of hashes that agree, or their expectation, and outputs of length 1."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, long_layers, post_norm, split


def shares(q: Array, k: Array, directions: Array) -> Array:
    """How many of the hashes put a query and a key of one head into one bucket."""
    found = np.zeros((len(q), len(k)))
    for hashed in directions:
        for i, asked in enumerate(q @ hashed.T > 0):
            for j, kept in enumerate(k @ hashed.T > 0):
                found[i, j] += all(asked == kept) / len(directions)
    return found


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def length(x: Array) -> Array:
        return np.sqrt((x**2).sum(-1, keepdims=True))

    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own = layer.attention
        q, k, v = (split(each, x, own.heads) for each in (own.query_map, own.key_map, own.value_map))
        if network.config.expected:
            angles = np.arccos(np.clip(q / length(q) @ (k / length(k)).transpose(0, 2, 1), -1, 1))
            weights = (1 - angles / np.pi) ** network.config.bits
        else:
            directions = array(own.attention.directions)
            weights = np.array([shares(q_h, k_h, directions) for q_h, k_h in zip(q, k, strict=True)])
        found = weights @ v
        found = found / np.where(length(found) > 0, length(found), 1)
        return post_norm(layer, x, linear(own.merge, np.concatenate([*found], -1))), weights

    return long_layers(network, tensors, run)
