"""Sukhbaatar et al. (2019), §2: soft windows as wide as a token says, or a head, looking back."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, linear, long_layers, post_norm, sigmoid, split


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config, spans = network.config, []

    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own = layer.attention
        q, k, v = (split(each, x, own.heads) for each in (own.query_map, own.key_map, own.value_map))
        weights = np.zeros((own.heads, len(x), len(x)))
        if config.span != "none":
            read = x if config.span == "token" else np.zeros_like(x)
            spans.append(config.max_span * sigmoid(linear(own.span_map, read)).T)
        for h, t in np.ndindex(weights.shape[:2]):
            for j in range(t + 1):
                soft = 1.0
                if config.span != "none":
                    soft = min(max((config.ramp + spans[-1][h, t] - (t - j)) / config.ramp, 0), 1)
                weights[h, t, j] = soft * np.exp(q[h, t] @ k[h, j] / np.sqrt(q.shape[-1]))
        weights = weights / weights.sum(-1, keepdims=True)
        return post_norm(layer, x, linear(own.merge, np.concatenate([*(weights @ v)], -1))), weights

    found = long_layers(network, tensors, run)
    return found | {f"span.{number}.self": each[..., None] for number, each in enumerate(spans)}
