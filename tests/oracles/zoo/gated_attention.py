"""Qiu et al. (2025), §2: softmax attention, and eq. 5 at position G1."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, linear, long_layers, post_norm, sigmoid, softmax, split


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own = layer.attention
        q, k, v = (split(each, x, own.heads) for each in (own.query_map, own.key_map, own.value_map))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        weights = softmax(np.where(np.tri(len(x)) > 0, scores, -np.inf))
        found = np.concatenate([*(weights @ v)], -1)
        gate = sigmoid(linear(own.output_map, x)) if network.config.gated else 1
        return post_norm(layer, x, linear(own.merge, found * gate)), weights

    return long_layers(network, tensors, run)
