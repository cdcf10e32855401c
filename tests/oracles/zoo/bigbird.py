"""Zaheer et al. (2020), §2 and appendix D: blocks of tokens; the random ones are what the network has drawn."""

from itertools import pairwise
from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder, softmax


def read(own: int, blocks: int, network: Any, drawn: Array) -> set[int]:
    """The blocks that a block of queries reads, of so many. drawn: numbers of a head, [block, r]."""
    size = network.config
    if own < size.global_:
        return set(range(blocks))
    near = {other for other in range(blocks) if other < size.global_ or abs(own - other) <= size.window}
    left = [other for other in range(blocks) if other not in near]
    edges = [part * len(left) // size.random for part in range(size.random + 1)] if size.random else []
    parts = [left[begin:end] for begin, end in pairwise(edges)]
    return near | {part[int(drawn[own, number]) % len(part)] for number, part in enumerate(parts) if part}


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        heads, count, d = q.shape
        block = network.config.block
        weights = np.zeros((heads, count, count))
        for head in range(heads):
            for i in range(count):
                chosen = read(i // block, -(-count // block), network, array(attention.drawn)[head])
                keys = [j for j in range(count) if j // block in chosen]
                weights[head, i, keys] = softmax(k[head, keys] @ q[head, i] / np.sqrt(d))
        return weights

    return long_encoder(network, tensors, attend)
