"""He et al. (2018), §3.2, and Chen et al. (2018): weights fade along the path in the tree."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, linear, softmax


def path(parents: list[int], begin: int, end: int) -> float:
    """Steps from one word to another over heads, breadth first; without end where no path is."""
    seen, front, count = {begin}, {begin}, 0
    while front:
        if end in front:
            return count
        count += 1
        front = {
            other
            for word in front
            for other in range(len(parents))
            if (parents[word] == other or parents[other] == word) and other not in seen
        }
        seen |= front
    return np.inf


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table, ids, mask = array(network.embedding.weight), tensors["token_ids"], tensors["token_mask"]
    h = both_ways(network.encoder, np.stack([table[word[real]].mean(0) for word, real in zip(ids, mask, strict=True)]))
    u, bias = array(network.parser.score.query_map.weight)[0], array(network.parser.score.query_map.bias).reshape(-1)
    w, config, places = array(network.attention.score.query_map.weight)[0], network.config, range(len(h))
    parse = softmax((h @ u + bias) @ h.T)
    parents, rows = parse.argmax(-1).tolist(), []
    for i in places:
        steps = np.array([path(parents, i, j) if config.tree else abs(i - j) for j in places], float)
        fades = 2.0**-steps if config.decay == "halving" else np.exp(-(steps**2) / (2 * (config.window / 2) ** 2))
        weighed = np.exp(h @ (h[i] @ w)) * fades * (steps <= config.window)
        rows.append(weighed / weighed.sum())
    a = np.array(rows)
    logits = linear(network.classify, np.concatenate([h, a @ h], -1))
    return {"logits": logits, "parse.self": parse[None], "words.self": a[None]}
