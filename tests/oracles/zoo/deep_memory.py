"""Tang et al. (2016), §3: hops over the words around a target, which are changed by how far away they are."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, sigmoid, softmax


def remembered(network: Any, x: Array, away: int, n: int) -> Array:
    """m of a word x, so many of n words away."""
    d, place = len(x), network.config.place
    if place == "none":
        return x
    if place == "near":
        return x * (1 - away / n)
    if place == "features":
        return np.array([x[k - 1] * ((1 - away / n) - (k / d) * (1 - 2 * away / n)) for k in range(1, d + 1)])
    return x * sigmoid(array(network.placed.vectors.weight)[away])


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table = array(network.words.weight)
    left, target, right = (table[tensors[f"{part}_ids"]] for part in ("left", "target", "right"))
    n = len(left) + len(target) + len(right)
    before = [remembered(network, x, len(left) - i, n) for i, x in enumerate(left)]
    m = np.array(before + [remembered(network, x, i + 1, n) for i, x in enumerate(right)])
    v, score, rows = target.mean(0), network.attention.score, []
    for _ in range(network.config.hops):
        rows.append(softmax(np.array([np.tanh(linear(score.of_key, m_i) + linear(score.of_query, v))[0] for m_i in m])))
        v = rows[-1] @ m + linear(network.on, v)
    looks = np.array(rows)[None]
    logits = linear(network.classify.linear, v)
    return {"logits": logits, "left": looks[..., : len(left)], "right": looks[..., len(left) :]}
