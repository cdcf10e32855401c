"""Shen et al. (2018b), §3 and §4: a pair of tokens at a time, with draws that come out as they most likely do."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, relu, sigmoid, softmax


def elu(values: Array) -> Array:
    """x where it is positive, else eˣ - 1."""
    return np.where(values > 0, values, np.expm1(np.minimum(values, 0)))


def drawn(sampler: Any, words: Array, noise: Array) -> list[int]:
    """Which words are chosen (eq. 8, 9)."""
    mean = words.mean(0)
    z = [linear(sampler.odds, elu(linear(sampler.hidden, np.concatenate([x, mean, x * mean]))))[0] for x in words]
    return [i for i, odds in enumerate(z) if noise[i] < sigmoid(odds)]


def of_head(layer: Any, values: Array) -> Array:
    """The map of the only head."""
    return values @ array(layer.weight)[0] + (0 if layer.bias is None else array(layer.bias).reshape(-1))


def encoded(network: Any, words: Array, heads: list[int], dependents: list[int]) -> tuple[Array, Array, Array]:
    """The sentence's vector, weights of each token over the others, and weights of the tokens."""
    encoder, count = network.encoder, len(words)
    h, score, gate = elu(linear(encoder.hidden, words)), encoder.attention.score, encoder.attention.combine
    around, u = np.zeros((count, count, h.shape[1])), np.zeros_like(h)
    for i in range(count):
        seen = [j for j in dependents if j != i] if i in heads else []
        s = np.zeros(h.shape[1])
        if seen:
            e = [5 * np.tanh((of_head(score.key_map, h[j]) + of_head(score.query_map, h[i])) / 5) for j in seen]
            around[i, seen] = softmax(np.stack(e).T).T
            s = sum(around[i, j] * h[j] for j in seen)
        f = sigmoid(linear(gate.gate, np.concatenate([s, h[i]])))
        u[i] = f * h[i] + (1 - f) * s
    source = encoder.source.attention.score
    counts = softmax(of_head(source.importance, elu(of_head(source.hidden, u))).T).T
    return (counts * u).sum(0), around, counts


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    vectors, maps = [], dict[str, Array]()
    for side in ("first", "second"):
        words = array(network.embedding.weight)[tensors[f"{side}_ids"]]
        chosen = {kind: list(range(len(words))) for kind in ("heads", "dependents")}
        for kind, sampler in network.samplers.items():
            chosen[kind] = drawn(sampler, words, tensors[f"{side}_{kind}_noise"])
        vector, around, counts = encoded(network, words, **chosen)
        vectors.append(vector)
        maps |= {f"{side}.self": around[None], f"{side}.source": counts[None, None]}
    first, second = vectors
    hidden = relu(linear(network.compare[0], np.concatenate([first, second, first - second, first * second])))
    return {"logits": linear(network.compare[3], hidden), **maps}
