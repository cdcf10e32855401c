"""Yang et al. (2024): eq. 10 token by token. A weight is what a query reads where one token alone has a value, 1."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, long_layers, post_norm, rms_norm, short_convolution, sigmoid, silu


def delta_rule(q: Array, k: Array, v: Array, alpha: Array, beta: Array) -> Array:
    """o [token, d_v] of a head; α [token, 1 or d_k], β [token]."""
    state, out = np.zeros((k.shape[1], v.shape[1])), []
    for t in range(len(q)):
        state = alpha[t][:, None] * state
        state = state - beta[t] * np.outer(k[t], k[t] @ state) + beta[t] * np.outer(k[t], v[t])
        out.append(q[t] @ state)
    return np.array(out)


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own = layer.attention
        q, k, v = (
            np.split(short_convolution(each[1], linear(each[0], x)), own.heads, -1)
            for each in (own.query_map, own.key_map, own.value_map)
        )
        gates = np.split(linear(own.gate_map, x), own.heads, -1)
        found, maps = [], []
        for h, gate in enumerate(gates):
            q_h, k_h = (each[h] / np.linalg.norm(each[h], axis=-1, keepdims=True) for each in (q, k))
            alpha = np.ones((len(x), 1))
            if network.config.gated:
                steps = own.attention.steps
                alpha = np.exp(-np.exp(array(steps.log_a)[h]) * np.log1p(np.exp(gate[:, 1:] + array(steps.bias)[h])))
            read = [q_h / np.sqrt(q_h.shape[1]), k_h]
            beta = sigmoid(gate[:, 0])
            maps.append(delta_rule(*read, np.eye(len(x)), alpha, beta))
            found.append(rms_norm(own.norm, delta_rule(*read, v[h], alpha, beta)))
        gated = np.concatenate(found, -1) * silu(linear(own.output_map, x))
        return post_norm(layer, x, linear(own.merge, gated)), np.array(maps)

    return long_layers(network, tensors, run)
