"""Parikh et al. (2016), §3, word by word."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, relu, softmax


def feed_forward(layers: Any, x: Array) -> Array:
    """Two layers, each followed by relu (F, G and H)."""
    for layer in layers:
        x = relu(linear(layer[1], x))
    return x


def within(attention: Any, words: Array, reach: int) -> tuple[Array, Array]:
    """§3.4: f_ij = F_intra(a_i)ᵀ F_intra(a_j), and a number for the distance, one for all beyond `reach`."""
    length = len(words)
    made = feed_forward(attention.score.network, words)
    f = np.zeros((length, length))
    for i in range(length):
        for j in range(length):
            bias = reach + i - j if abs(i - j) <= reach else -1
            f[i, j] = made[i] @ made[j] + array(attention.score.distance)[bias]
    weights_of = softmax(f)
    return np.concatenate([words, weights_of @ words], -1), weights_of


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    ids, maps = [tensors[f"{side}_ids"] for side in ("first", "second")], {}
    a, b = (array(network.embedding.weight)[each] @ array(network.project.weight).T for each in ids)
    if network.config.within:
        (a, of_a), (b, of_b) = (within(network.within, words, network.config.reach) for words in (a, b))
        maps = {"first.self": of_a[None], "second.self": of_b[None]}
    shared = network.attention.score.network
    e = feed_forward(shared, a) @ feed_forward(shared, b).T
    over_b, over_a = softmax(e), softmax(e.T)  # eq. 2: of each a_i over b, of each b_j over a
    v1 = feed_forward(network.compare, np.concatenate([a, over_b @ b], -1)).sum(0)  # eq. 3, 4
    v2 = feed_forward(network.compare, np.concatenate([b, over_a @ a], -1)).sum(0)  # eq. 3, 5
    hidden = feed_forward(network.classify[0], np.concatenate([v1, v2]))
    maps |= {"first.cross": over_b[None], "second.cross": over_a[None]}
    return {"logits": linear(network.classify[1], hidden), **maps}
