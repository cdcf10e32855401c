"""Oracles of the score functions, by the mechanism's name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracles import alignments, scores
from tests.oracles.cases import Array, Oracle, Row, additive_parameters, array, bias, by_row, linear


def soft(score: Callable[[Any, Row, int], float]) -> Oracle:
    """Softmax over one score a key."""

    def weights(module: Any, row: Row) -> Array:
        return alignments.softmax(np.array([score(module.score, row, j) for j in range(len(row.keys))]), row.allowed)

    return by_row(weights)


def ratio(score: Callable[[Any, Row, int], float]) -> Oracle:
    """Kernel values over their sum."""

    def weights(module: Any, row: Row) -> Array:
        return alignments.ratio(np.array([score(module.score, row, j) for j in range(len(row.keys))]), row.allowed)

    return by_row(weights)


def additive(s: Any, r: Row, j: int) -> float:
    return scores.additive(r.query, r.keys[j], *additive_parameters(s, r.head))


def concat(s: Any, r: Row, j: int) -> float:
    return scores.concat(
        r.query, r.keys[j], linear(s.joint, r.head), bias(s.joint, r.head), linear(s.importance, r.head)[0]
    )


def deep(s: Any, r: Row, j: int) -> float:
    w0, w1, b1, w = additive_parameters(s, r.head)
    hidden = [(linear(layer, r.head), bias(layer, r.head)) for layer in s.hidden]
    return scores.deep(r.query, r.keys[j], w0, w1, b1, hidden, w, float(array(s.offset, r.head).item()))


def location_aware(s: Any, r: Row, j: int) -> float:
    w1, w2, b, w = additive_parameters(s, r.head)
    filters = array(s.convolution.weight)[:, 0]
    u = array(s.location_map.weight)
    return scores.location_aware(r.query, r.keys[j], r.inputs["previous_weights"], j, w1, w2, u, filters, b, w)


def coverage_aware(s: Any, r: Row, j: int) -> float:
    w1, w2, b, w = additive_parameters(s, r.head)
    return scores.coverage_aware(
        r.query, r.keys[j], r.inputs["coverage"][j], w1, w2, array(s.coverage_map.weight)[:, 0], b, w
    )


def feature_based(s: Any, r: Row, j: int) -> float:
    h = r.head
    return scores.feature_based(
        r.keys, r.valid, j, 1, linear(s.mean_map, h), linear(s.spread_map, h), bias(s.mean_map, h),
        linear(s.importance, h)[0],
    )  # fmt: skip


def multi_dimensional(module: Any, r: Row) -> Array:
    s, h = module.score, r.head
    e = np.stack([
        scores.multi_dimensional(
            r.query, k, linear(s.query_map, h), linear(s.key_map, h), bias(s.query_map, h), linear(s.importance, h)
        )
        for k in r.keys
    ])  # fmt: skip
    return np.stack([alignments.softmax(e[:, f], r.allowed) for f in range(e.shape[1])], -1)


def importance_matrix(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Each output is the additive score with its own importance vector, and a head of the answer."""
    s = module.score
    outputs = []
    for w in linear(s.importance, 0):
        arguments = linear(s.query_map, 0), linear(s.key_map, 0), bias(s.key_map, 0), w
        one = by_row(
            lambda m, r, arguments=arguments: alignments.softmax(
                np.array([scores.additive(r.query, k, *arguments) for k in r.keys]), r.allowed
            )
        )
        outputs.append(one(module, inputs))
    return {name: np.concatenate([o[name] for o in outputs], 1) for name in ("weights", "context")}


def relation_context(module: Any, r: Row, a: Array) -> Array:
    """Shaw et al. 2018: Σ_j a_j (v_j + r_{j-i})."""
    table = array(module.combine.relation)
    return sum(a[j] * (r.values[j] + table[max(-2, min(2, j - r.at)) + 2]) for j in range(len(a)))


def outer_product(module: Any, r: Row) -> Array:
    return np.stack([np.tanh(r.query * k) if ok else np.zeros(len(k)) for k, ok in zip(r.keys, r.allowed, strict=True)])


def outer_product_context(module: Any, r: Row, a: Array) -> Array:
    """Le et al. 2020: Σ_l tanh(q ⊙ k_l) ⊗ v_l, row after row."""
    total = np.zeros((a.shape[1], r.values.shape[1]))
    for j in range(len(a)):
        total += np.outer(a[j], r.values[j])
    return total.reshape(-1)


def relation_aware(module: Any, r: Row) -> Array:
    table = array(module.score.relation)
    e = [scores.relation_aware(r.query, k, j - r.at, table, 2) for j, k in enumerate(r.keys)]
    return alignments.softmax(np.array(e), r.allowed)


SCORE_ORACLES: dict[str, Oracle] = {
    "additive": soft(additive),
    "concat": soft(concat),
    "multiplicative (dot)": soft(lambda s, r, j: scores.dot(r.query, r.keys[j])),
    "scaled multiplicative": soft(lambda s, r, j: scores.scaled_dot(r.query, r.keys[j])),
    "general": soft(lambda s, r, j: scores.general(r.query, r.keys[j], linear(s.query_map, r.head))),
    "biased general": soft(
        lambda s, r, j: scores.biased_general(
            r.query, r.keys[j], linear(s.query_map, r.head), bias(s.query_map, r.head)
        )
    ),
    "activated general": soft(
        lambda s, r, j: scores.activated_general(
            r.query, r.keys[j], linear(s.query_map, r.head), float(array(s.offset, r.head).item())
        )
    ),
    "cosine similarity": soft(lambda s, r, j: scores.cosine(r.query, r.keys[j], 5.0)),
    "negative Euclidean distance": soft(lambda s, r, j: scores.negative_euclidean(r.query, r.keys[j])),
    "Gaussian kernel": soft(lambda s, r, j: scores.gaussian_kernel(r.query, r.keys[j], len(r.query) ** 0.25)),
    "deep": soft(deep),
    "location-based": soft(
        lambda s, r, j: scores.location_based(r.query, j, linear(s.position_map, r.head), bias(s.position_map, r.head))
    ),
    "feature-based": soft(feature_based),
    "generalised kernel": ratio(lambda s, r, j: scores.kernel(r.query, r.keys[j], scores.elu_plus_one)),
    "self-attentive": soft(
        lambda s, r, j: scores.self_attentive(
            r.keys[j], linear(s.key_map, r.head), bias(s.key_map, r.head), linear(s.importance, r.head)[0]
        )
    ),
    "multi-dimensional": by_row(multi_dimensional),
    "importance matrix": importance_matrix,
    "location-aware": soft(location_aware),
    "relation-aware": by_row(relation_aware, relation_context),
    "outer-product": by_row(outer_product, outer_product_context),
    "coverage-aware": soft(coverage_aware),
    "random features": ratio(lambda s, r, j: scores.random_features(r.query, r.keys[j], array(s.directions))),
}
