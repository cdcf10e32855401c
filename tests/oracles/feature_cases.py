"""Oracles of co-attention and rotatory attention, by the mechanism's name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracles import alignments, plain
from tests.oracles.cases import Array, Oracle, Row, array, bias, by_row, linear, summed
from tests.oracles.plain import Score, attend, mean, row, stacked

FINE = ("first", "second", "first_weights", "second_weights", "affinity")
Aggregation = Callable[[Any, Array, Array, Array, Array, Array], tuple[Array, Array]]


def instances(inputs: dict[str, Array]) -> Any:
    """Features and masks of either input, instance by instance."""
    return zip(inputs["first"], inputs["second"], inputs["first_mask"], inputs["second_mask"], strict=True)


def alternating(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Lu et al. 2016, eq. 6: the first step is the third without a query; or self-attentive, as in BF eq. 7."""
    over_first, over_second = plain.additive(module.over_first), plain.additive(module.over_second)
    found = []
    for f1, f2, m1, m2 in instances(inputs):
        if module.start is None:
            a0, c0 = attend(over_first, np.zeros(module.d_query), f1, m1)
        else:
            a0, c0 = attend(plain.self_attentive(module.start.attention), np.zeros(0), f1, m1)
        a2, c2 = attend(over_second, c0, f2, m2)
        a1, c1 = attend(over_first, c2, f1, m1)
        found.append((c1, c2, row(a0), row(a2), row(a1)))
    return stacked(found, "first", "second", "start_weights", "second_weights", "first_weights")


def interactive_pair(
    module: Any, score: Callable[[Any], Score], f1: Array, f2: Array, m1: Array, m2: Array
) -> tuple[Array, ...]:
    """Ma et al. 2017: each is asked with the other's average."""
    a1, c1 = attend(score(module.over_first.attention), mean(f2, m2), f1, m1)
    a2, c2 = attend(score(module.over_second.attention), mean(f1, m1), f2, m2)
    return c1, c2, row(a1), row(a2)


def interactive(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    found = [interactive_pair(module, plain.activated_general, *one) for one in instances(inputs)]
    return stacked(found, "first", "second", "first_weights", "second_weights")


def affinities(score: Score, f1: Array, f2: Array, m1: Array, m2: Array) -> Array:
    """Every pair's score; 0 where one of the two is padding."""
    pairs = [[score(x, y) if m1[i] and m2[j] else 0.0 for j, y in enumerate(f2)] for i, x in enumerate(f1)]
    return np.array(pairs)


def pooled(aggregate: Any, e: Array, f1: Array, f2: Array, m1: Array, m2: Array) -> tuple[Array, Array]:
    """dos Santos et al. 2016: the best partner of each."""
    first = [max((e[i, j] for j in range(len(f2)) if m2[j]), default=0.0) for i in range(len(f1))]
    second = [max((e[i, j] for i in range(len(f1)) if m1[i]), default=0.0) for j in range(len(f2))]
    return alignments.softmax(np.array(first), m1), alignments.softmax(np.array(second), m2)


def perceptron_of(aggregate: Any, to_first: Array, to_second: Array, f1: Array, f2: Array) -> tuple[Array, Array]:
    """w₁ᵀ tanh(W₁ x_i + Σ_j to_first[i, j] W₂ y_j), and the other way round."""
    w1, w2 = linear(aggregate.first_map, 0), linear(aggregate.second_map, 0)
    v1, v2 = linear(aggregate.first_importance, 0)[0], linear(aggregate.second_importance, 0)[0]
    first = [v1 @ np.tanh(w1 @ x + sum(to_first[i, j] * (w2 @ y) for j, y in enumerate(f2))) for i, x in enumerate(f1)]
    second = [
        v2 @ np.tanh(w2 @ y + sum(to_second[j, i] * (w1 @ x) for i, x in enumerate(f1))) for j, y in enumerate(f2)
    ]
    return np.array(first), np.array(second)


def perceptron(aggregate: Any, e: Array, f1: Array, f2: Array, m1: Array, m2: Array) -> tuple[Array, Array]:
    first, second = perceptron_of(aggregate, e, e.T, f1, f2)
    return alignments.softmax(first, m1), alignments.softmax(second, m2)


def attentions(e: Array, m1: Array, m2: Array) -> tuple[Array, Array]:
    """M₁: each of the first over the second; M₂: each of the second over the first (its columns)."""
    first = np.stack([alignments.softmax(e[i], m2) for i in range(e.shape[0])])
    second = np.stack([alignments.softmax(e[:, j], m1) for j in range(e.shape[1])], 1)
    return first, second


def nested(aggregate: Any, e: Array, f1: Array, f2: Array, m1: Array, m2: Array) -> tuple[Array, Array]:
    """Nie et al. 2018."""
    over_second, over_first = attentions(e, m1, m2)
    first, second = perceptron_of(aggregate, over_second, over_first.T, f1, f2)
    return alignments.softmax(first, m1), alignments.softmax(second, m2)


def over_attention(aggregate: Any, e: Array, f1: Array, f2: Array, m1: Array, m2: Array) -> tuple[Array, Array]:
    """Cui et al. 2017: the average column of M₂ weighs the rows of M₁."""
    over_second, over_first = attentions(e, m1, m2)
    a1 = mean(over_first.T, m2)
    return a1, summed(a1, over_second)


def linear_map(aggregate: Any, e: Array, f1: Array, f2: Array, m1: Array, m2: Array) -> tuple[Array, Array]:
    """Li et al. 2018c: one weight a position of the other input."""
    w1, w2 = array(aggregate.first_weight), array(aggregate.second_weight)
    first = [sum(e[i, j] * w2[j] for j in range(len(f2))) for i in range(len(f1))]
    second = [sum(e[i, j] * w1[i] for i in range(len(f1))) for j in range(len(f2))]
    return alignments.softmax(np.array(first), m1), alignments.softmax(np.array(second), m2)


def fine_pair(
    module: Any, score: Callable[[Any], Score], aggregation: Aggregation, f1: Array, f2: Array, m1: Array, m2: Array
) -> tuple[Array, ...]:
    e = affinities(score(module.attention), f1, f2, m1, m2)
    a1, a2 = aggregation(module.aggregate, e, f1, f2, m1, m2)
    return summed(a1, f1), summed(a2, f2), row(a1), row(a2), e[None]


def parallel(score: Callable[[Any], Score], aggregation: Aggregation) -> Oracle:
    """Lu et al. 2016, eq. 3–5, with other affinities and aggregations in the same places."""
    return lambda module, inputs: stacked(
        [fine_pair(module, score, aggregation, *one) for one in instances(inputs)], *FINE
    )


def multi_grained(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Fan et al. 2018: the four context vectors one after the other."""
    found = []
    for one in instances(inputs):
        c1, c2, *coarse = interactive_pair(module.coarse, plain.general, *one)
        f1, f2, *fine = fine_pair(module.fine, plain.concat_product, pooled, *one)
        found.append((np.concatenate([c1, c2, f1, f2]), *coarse, *fine))
    return stacked(found, "context", "coarse_first", "coarse_second", "fine_first", "fine_second", "affinity")


def rotatory(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Zheng & Xia 2018; the next turn starts from what the last made of the target (Wallaart & Frasincar 2019)."""
    names = ("left", "right", "left_target", "right_target")
    found = []
    for b in range(len(inputs["target"])):
        (left, target, right) = (inputs[n][b] for n in ("left", "target", "right"))
        (left_ok, target_ok, right_ok) = (inputs[f"{n}_mask"][b] for n in ("left", "target", "right"))
        asks_left = asks_right = mean(target, target_ok)
        turns = []
        for rotation in module.rotations:
            of = {n: plain.activated_general(getattr(rotation, n)) for n in names}
            a_l, r_l = attend(of["left"], asks_left, left, left_ok)
            a_r, r_r = attend(of["right"], asks_right, right, right_ok)
            a_lt, asks_left = attend(of["left_target"], r_l, target, target_ok)
            a_rt, asks_right = attend(of["right_target"], r_r, target, target_ok)
            turns.append((a_l, a_r, a_lt, a_rt))
        maps = [np.stack(rows)[None] for rows in zip(*turns, strict=True)]
        found.append((np.concatenate([r_l, r_r, asks_left, asks_right]), *maps))
    return stacked(found, "context", *(f"{n}_weights" for n in names))


def soft(score: Callable[[Any, Row, Array], float]) -> Oracle:
    """Softmax of an affinity, as a score of one query and one key."""
    return by_row(
        lambda module, r: alignments.softmax(np.array([score(module.score, r, k) for k in r.keys]), r.allowed)
    )


def hermitian(s: Any, r: Row, k: Array) -> float:
    """Tay et al. 2018b, with NumPy's complex numbers: the real part of (W₁ q)ᴴ (W₂ k)."""
    q_parts, k_parts = np.split(linear(s.query_map, r.head), 2), np.split(linear(s.key_map, r.head), 2)
    q_complex = (q_parts[0] + 1j * q_parts[1]) @ r.query
    k_complex = (k_parts[0] + 1j * k_parts[1]) @ k
    return float(sum(np.conj(x) * y for x, y in zip(q_complex, k_complex, strict=True)).real)


def decomposable(s: Any, r: Row, k: Array) -> float:
    """Parikh et al. 2016: relu(W₁ q + b₁)ᵀ relu(W₂ k + b₂)."""
    hidden = [
        np.maximum(linear(m, r.head) @ x + bias(m, r.head), 0) for m, x in ((s.query_map, r.query), (s.key_map, k))
    ]
    return float(sum(hidden[0] * hidden[1]))


FEATURE_ORACLES: dict[str, Oracle] = {
    "alternating co-attention": alternating,
    "alternating co-attention, a start of its own": alternating,
    "interactive co-attention": interactive,
    "parallel co-attention, bilinear affinity": parallel(plain.bilinear, perceptron),
    "parallel co-attention, concat-product affinity": parallel(plain.concat_product, perceptron),
    "attentive pooling": parallel(plain.bilinear, pooled),
    "multi-grained co-attention": multi_grained,
    "rotatory attention": rotatory,
    "rotatory attention, repeated": rotatory,
    "aggregation by pooling": parallel(plain.general, pooled),
    "aggregation by perceptron": parallel(plain.general, perceptron),
    "aggregation by linear transformation": parallel(plain.bilinear, linear_map),
    "attention over attention": parallel(plain.general, over_attention),
    "aggregation by perceptron with nested attention": parallel(plain.bilinear, nested),
    "bilinear affinity": soft(lambda s, r, k: float(np.tanh(k @ linear(s.query_map, r.head) @ r.query))),
    "concat-product affinity": soft(
        lambda s, r, k: float(linear(s.weight, r.head)[0] @ np.concatenate([k, r.query, k * r.query]))
    ),
    "decomposable affinity": soft(decomposable),
    "Hermitian affinity": soft(hermitian),
}
