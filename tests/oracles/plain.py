"""One query over a list of positions, the loop that every composition's oracle repeats."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracles import alignments, scores
from tests.oracles.cases import Array, array, bias, linear, summed

Score = Callable[[Array, Array], float]


def attend(score: Score, query: Array, keys: Array, allowed: Array, values: Array | None = None) -> tuple[Array, Array]:
    """(weights, context vector) of one query by softmax."""
    a = alignments.softmax(np.array([score(query, k) for k in keys]), allowed)
    return a, summed(a, keys if values is None else values)


def mean(features: Array, allowed: Array) -> Array:
    """The average of the allowed positions; zeros where there are none."""
    total, count = np.zeros(features.shape[-1]), 0
    for position in range(len(features)):
        if allowed[position]:
            total, count = total + features[position], count + 1
    return total / max(count, 1)


def additive(attention: Any) -> Score:
    s = attention.score
    w1, w2, b, w = linear(s.query_map, 0), linear(s.key_map, 0), bias(s.query_map, 0), linear(s.importance, 0)[0]
    return lambda q, k: scores.additive(q, k, w1, w2, b, w)


def self_attentive(attention: Any) -> Score:
    s = attention.score
    w1, b, w = linear(s.key_map, 0), bias(s.key_map, 0), linear(s.importance, 0)[0]
    return lambda _, k: scores.self_attentive(k, w1, b, w)


def general(attention: Any) -> Score:
    w = linear(attention.score.query_map, 0)
    return lambda q, k: scores.general(q, k, w)


def activated_general(attention: Any) -> Score:
    w, b = linear(attention.score.query_map, 0), float(array(attention.score.offset, 0).item())
    return lambda q, k: float(np.tanh(scores.general(q, k, w) + b))


def bilinear(attention: Any) -> Score:
    w = linear(attention.score.query_map, 0)
    return lambda q, k: float(np.tanh(scores.general(q, k, w)))


def concat_product(attention: Any) -> Score:
    w = linear(attention.score.weight, 0)[0]
    return lambda q, k: float(sum(w * np.concatenate([k, q, k * q])))


def gru(cell: Any, x: Array, h: Array) -> Array:
    """A GRU cell (Cho et al. 2014, as PyTorch has it: reset after the product)."""
    w, u, b, c = (array(getattr(cell, n)) for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    (xr, xz, xn), (hr, hz, hn) = np.split(w @ x + b, 3), np.split(u @ h + c, 3)
    r, z = (np.array([alignments.sigmoid(v) for v in s]) for s in (xr + hr, xz + hz))
    return (1 - z) * np.tanh(xn + r * hn) + z * h


def stacked(instances: list[tuple[Array, ...]], *names: str) -> dict[str, Array]:
    """Outputs of each instance, as a batch by name."""
    return {name: np.stack(column) for name, column in zip(names, zip(*instances, strict=True), strict=True)}


def row(a: Array) -> Array:
    """One row of weights as [head, query, key]."""
    return a[None, None]
