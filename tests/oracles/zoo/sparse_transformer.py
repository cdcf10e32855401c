"""Child et al. (2019), §4.3: fixed patterns, merged; of the strided ones a half of the heads has each."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, long_encoder, softmax


def reads(size: Any, head: int, i: int, j: int) -> bool:
    """Whether j ≤ i is in A_i of a head."""
    stride, c = size.stride, size.columns
    if size.strided:
        return i - j <= stride if head < size.heads // 2 else (i - j) % stride == 0
    end = stride - head % (stride // c) * c if c else 0
    return i // stride == j // stride or end - c <= j % stride < end


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        heads, count, d = q.shape
        weights = np.zeros((heads, count, count))
        for head in range(heads):
            for i in range(count):
                keys = [j for j in range(i + 1) if reads(network.config, head, i, j)]
                weights[head, i, keys] = softmax(k[head, keys] @ q[head, i] / np.sqrt(d))
        return weights

    return long_encoder(network, tensors, attend)
