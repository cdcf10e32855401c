"""Xiao et al. (2023), §3.3, with a number for a token; windows in layers 0, 2, … (OpenAI 2025)."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    sizes, number = network.config, iter(range(network.config.layers))

    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        weights = np.zeros((len(q), q.shape[1], q.shape[1]))
        window = sizes.window if next(number) % 2 == 0 and sizes.window else q.shape[1]
        for h, i in np.ndindex(weights.shape[:2]):
            seen = range(max(0, i - window + 1), i + 1)
            raised = np.exp([q[h, i] @ k[h, j] / np.sqrt(q.shape[-1]) for j in seen])
            nothing = np.exp(array(attention.align.sink)[h, 0, 0]) if sizes.sinks else 0
            weights[h, i, seen.start : seen.stop] = raised / (raised.sum() + nothing)
        return weights

    return long_encoder(network, tensors, attend)
