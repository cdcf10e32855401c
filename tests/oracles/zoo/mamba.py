"""Dao & Gu (2024): the recurrence token by token (eq. 2), the matrix by its definition (§3), the block of Fig. 6."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, long_layers, rms_norm, short_convolution, silu


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own, u = layer.attention, rms_norm(layer.norm, x)
        of = own.attention
        x_, b, c = (short_convolution(each[1], linear(each[0], u)) for each in (own.x_map, own.b_map, own.c_map))
        asked = linear(own.step_map, u) * network.config.selective + array(of.steps.bias).ravel()
        steps, a = np.log1p(np.exp(asked)).T, -np.exp(array(of.steps.log_a).ravel())
        found, maps = [], []
        for values, step, a_h, skip in zip(np.split(x_, own.heads, -1), steps, a, array(own.skip), strict=True):
            state, out = np.zeros((b.shape[1], values.shape[1])), []
            for t, value in enumerate(values):
                state = np.exp(step[t] * a_h) * state + step[t] * np.outer(b[t], value)
                out.append(c[t] @ state + skip * value)
            found.append(np.array(out))
            maps.append(
                [
                    [c[i] @ b[j] * step[j] * np.exp(a_h * step[j + 1 : i + 1].sum()) * (j <= i) for j in range(len(u))]
                    for i in range(len(u))
                ]
            )
        mixed = rms_norm(own.norm, np.concatenate(found, -1) * silu(linear(own.z_map, u)))
        return x + linear(own.merge, mixed), np.array(maps)

    return long_layers(network, tensors, run)
