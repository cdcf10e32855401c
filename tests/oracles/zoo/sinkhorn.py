"""Tay et al. (2020), §3: blocks of keys and values in an order that Sinkhorn's iterations make; SortCut, §3.3."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder, relu, softmax


def order(attention: Any, head: int, blocks: list[Array]) -> Array:
    """S of a head, from what stands in each block."""
    hidden, place = (
        (array(layer.weight)[head], array(layer.bias)[head, 0]) for layer in (attention.hidden, attention.place)
    )
    scores = np.array([relu(np.sum(block, 0) @ hidden[0] + hidden[1]) @ place[0] + place[1] for block in blocks])[
        :, : len(blocks)
    ]
    shares = np.exp(scores)
    for _ in range(8):
        shares = shares / shares.sum(1, keepdims=True)
        shares = shares / shares.sum(0, keepdims=True)
    return shares


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        size, cut = network.config.block, network.config.cut
        heads, count, d = q.shape
        weights = np.zeros((heads, count, count))
        for head in range(heads):
            blocks = [k[head, begin : begin + size] for begin in range(0, count, size)]
            shares = order(attention, head, blocks)
            # What can be read, as how much of each token it is: tokens themselves, and places of sorted blocks.
            tokens = np.eye(count)
            mixed = [
                np.array([[shares[own, j // size] * (j % size == p) for j in range(count)] for p in range(size)])
                for own in range(len(blocks))
            ]
            full = min(size, count)
            for i in range(count):
                own = i // size
                if cut:
                    read = np.concatenate([mixed[number][:full] for number in range(min(cut, len(blocks)))])
                else:
                    read = np.concatenate([tokens[own * size : own * size + size], mixed[own][:full]])
                weights[head, i] = softmax(read @ k[head] @ q[head, i] / np.sqrt(d)) @ read
        return weights

    return long_encoder(network, tensors, attend)
