"""Shen et al. (2018c), §3: a pair of tokens, and of blocks, at a time."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, relu, sigmoid
from tests.oracles.zoo.resan import elu, of_head


def over(e: list[Array]) -> Array:
    """Softmax over a list, feature by feature."""
    raised = np.exp(np.array(e))
    return raised / raised.sum(0)


def token_to_token(score: Any, h: Array, seen: Any) -> tuple[Array, Array]:
    """What each row of h finds in those that it has seen, zeros in none; and weights [row, row, d]."""
    found, weights = np.zeros_like(h), np.zeros((len(h), *h.shape))
    for i in range(len(h)):
        if near := [j for j in range(len(h)) if seen(i, j)]:
            e = [5 * np.tanh((of_head(score.key_map, h[j]) + of_head(score.query_map, h[i])) / 5) for j in near]
            weights[i, near] = over(e)
            found[i] = (weights[i, near] * h[near]).sum(0)
    return found, weights


def source_to_token(score: Any, h: Array) -> Array:
    """Weights [row, d]."""
    return over([of_head(score.importance, elu(of_head(score.hidden, each))) for each in h])


def along(side: Any, words: Array, seen: Any) -> tuple[Array, list[Array]]:
    """One direction: u, and the maps."""
    config, x = side.config, elu(linear(side.hidden, words))
    size, count, d = config.block, -(-config.max_tokens // config.block), x.shape[1]
    h, within, pool = np.zeros_like(x), np.zeros((len(x), size, d)), np.zeros((count, size, d))
    v, some = [], range(-(-len(x) // size))
    for block in some:
        own = slice(block * size, min((block + 1) * size, len(x)))
        here = own.stop - own.start
        h[own], weights = token_to_token(side.within.score, x[own], seen)
        within[own, :here] = weights
        pool[block, :here] = source_to_token(side.pool.score, h[own])
        v.append((pool[block, :here] * h[own]).sum(0))
    e, maps = np.array(v), [within, pool]
    if side.among is not None:
        o, weights = token_to_token(side.among.score, e, seen)
        gate = sigmoid(linear(side.among.combine.gate, np.concatenate([o, e], -1)))
        e, among = gate * e + (1 - gate) * o, np.zeros((count, count, d))
        among[: len(v), : len(v)] = weights
        maps.append(among)
    read = np.array([np.concatenate([x[i], h[i], e[i // size]]) for i in range(len(x))])
    gate = sigmoid(linear(side.gate, read))
    return gate * elu(linear(side.fused, read)) + (1 - gate) * x, maps


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    vectors, maps = [], dict[str, Array]()
    directions = {"onward": lambda i, j: j < i, "backward": lambda i, j: j > i}
    for name in ("first", "second"):
        words, found = array(network.embedding.weight)[tensors[f"{name}_ids"]], []
        for direction, seen in directions.items():
            u, made = along(network.encoder.sides[direction], words, seen)
            found.append(u)
            kinds = ("within", "pool", "among")
            maps |= {f"{name}.{direction}.{kind}": each[None] for kind, each in zip(kinds, made, strict=False)}
        u = np.concatenate(found, -1)
        counts = source_to_token(network.encoder.source.attention.score, u)
        maps[f"{name}.source"] = counts[None, None]
        vectors.append((counts * u).sum(0))
    first, second = vectors
    hidden = relu(linear(network.compare[0], np.concatenate([first, second, first - second, first * second])))
    return {"logits": linear(network.compare[3], hidden), **maps}
