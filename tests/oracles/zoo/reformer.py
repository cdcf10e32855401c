"""Kitaev et al. (2020), §2 and appendix A: softmax over the tokens that some round of hashing puts together."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder, softmax


def found_by(q: Array, rotation: Array, chunk: int) -> list[set[int]]:
    """P_i of one round and one head: of the own bucket, in the own chunk and the one before."""
    bucket = np.concatenate([q @ rotation, -q @ rotation], -1).argmax(-1)
    order = sorted(range(len(q)), key=lambda i: (bucket[i], i))
    chunks = [order[begin : begin + chunk] for begin in range(0, len(order), chunk)]
    found = [set[int]() for _ in order]
    for number, own in enumerate(chunks):
        for i in own:
            found[i] = {j for j in [*(chunks[number - 1] if number else []), *own] if bucket[i] == bucket[j]}
    return found


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        weights = np.zeros((*q.shape[:2], q.shape[1]))
        for head, rotations in enumerate(array(attention.rotations)):
            rounds = [found_by(q[head], rotation, network.config.chunk) for rotation in rotations]
            keys = q[head] / np.sqrt((q[head] ** 2).sum(-1, keepdims=True))
            for i in range(q.shape[1]):
                some = sorted(set.union(*(found[i] for found in rounds)) - {i}) or [i]
                weights[head, i, some] = softmax(keys[some] @ q[head, i])
        return weights

    return long_encoder(network, tensors, attend)
