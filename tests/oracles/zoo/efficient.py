"""Shen et al. (2021), eq. 2 to 4, with the weights made out."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, long_encoder, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        if network.config.scaling:
            return (q / np.sqrt(len(q[0]))) @ (k / np.sqrt(len(k[0]))).transpose(0, 2, 1)
        return softmax(q) @ softmax(k.transpose(0, 2, 1))

    return long_encoder(network, tensors, attend)
