"""Oracles of the training signals, by the mechanism's name."""

import math
from itertools import product
from typing import Any

import numpy as np

from tests.oracles.alignments import sigmoid
from tests.oracles.cases import Array, Oracle, array
from tests.oracles.plain import gru, mean


def each(tensor: Array) -> Any:
    """All indices but the last axis's."""
    return product(*(range(n) for n in tensor.shape[:-1]))


def average(losses: list[float]) -> Array:
    """The mean, 0 of nothing."""
    return np.array(sum(losses) / max(len(losses), 1))


def gold_rows(inputs: dict[str, Array]) -> list[tuple[Array, Array]]:
    """Weights and gold weights of the queries that have some."""
    return [(inputs["weights"][i], inputs["gold"][i]) for i in each(inputs["gold"]) if inputs["gold"][i].sum() > 0]


def cross_entropy(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    losses = [-sum(g[j] * math.log(a[j]) for j in range(len(a))) for a, g in gold_rows(inputs)]
    return {"loss": average(losses)}


def squared_error(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    return {"loss": average([0.5 * sum((a[j] - g[j]) ** 2 for j in range(len(a))) for a, g in gold_rows(inputs)])}


def overlap(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    return {"loss": average([-math.log(sum(g[j] * a[j] for j in range(len(a)))) for a, g in gold_rows(inputs)])}


def gates(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """The probability that a gold gate opens and no other, each by itself: that of all such ways to open, added up."""
    losses = []
    for a, g in gold_rows(inputs):
        chance = 0.0
        for way in product((0, 1), repeat=len(a)):
            if any(way) and all(right or not opens for opens, right in zip(way, g, strict=True)):
                chance += math.prod(p if opens else 1 - p for opens, p in zip(way, a, strict=True))
        losses.append(-math.log(chance))
    return {"loss": average(losses)}


def chances(logits: Array) -> Array:
    """Softmax of one key's logits."""
    odds = [math.exp(x) for x in logits]
    return np.array(odds) / sum(odds)


def rationale(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Zhang et al. 2016: cross-entropy of the key's kind, of three."""
    losses = [
        -math.log(chances(inputs["logits"][b, k])[inputs["kind"][b, k]])
        for b, k in each(inputs["logits"])
        if inputs["key_mask"][b, k]
    ]
    return {"loss": average(losses)}


def rationale_attention(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Zhang et al. 2016: a key weighs as much as it is surely one rationale or the other."""
    w, b = array(module.judge.weight), array(module.judge.bias)
    weights, contexts = [], []
    for features, ok in zip(inputs["features"], inputs["key_mask"], strict=True):
        a = [max(chances(w @ f + b)[1:]) if o else 0.0 for f, o in zip(features, ok, strict=True)]
        weights.append([[a]])
        contexts.append(sum(x * f for x, f in zip(a, features, strict=True)))
    return {"weights": np.array(weights), "context": np.array(contexts)}


def syntax_head(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    losses = []
    for b, t in each(inputs["parents"][..., None]):
        parent = inputs["parents"][b, t]
        if inputs["query_mask"][b, t] and parent >= 0:
            losses.append(-math.log(inputs["among_queries"][b, 0, t, parent]))
    return {"loss": average(losses)}


def distillation(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    losses = []
    for b, h, i in each(inputs["weights"]):
        if inputs["query_mask"][b, i]:
            pairs = zip(inputs["weights"][b, h, i], inputs["teacher"][b, h, i], strict=True)
            losses.append(sum(t * math.log(t / a) for a, t in pairs))
    return {"loss": average(losses)}


def covered(weights: Array) -> Array:
    """Σ_{s<t} a_s."""
    total = np.zeros_like(weights)
    for b, h, t in each(weights):
        for s in range(t):
            total[b, h, t] += weights[b, h, s]
    return total


def coverage_penalty(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    weights, total = inputs["weights"], covered(inputs["weights"])
    losses = [
        sum(min(a, c) for a, c in zip(weights[b, h, t], total[b, h, t], strict=True))
        for b, h, t in each(weights)
        if inputs["query_mask"][b, t]
    ]
    return {"loss": average(losses)}


def coverage_vectors(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Tu et al. 2016, eq. 5: a gated unit a key."""
    state = np.zeros_like(inputs["state"])
    for i, k in each(state):
        x = np.concatenate([inputs["weights"][i, :, 0, k], inputs["features"][i, k], inputs["question"][i, 0]])
        state[i, k] = gru(module.cell, x, inputs["state"][i, k])
    return {"state": state}


def doubly_stochastic(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    weights, losses = inputs["weights"], []
    for b, h in product(range(weights.shape[0]), range(weights.shape[1])):
        loss = 0.0
        for k in range(weights.shape[3]):
            steps = [weights[b, h, t, k] for t in range(weights.shape[2]) if inputs["query_mask"][b, t]]
            loss += (1 - sum(steps)) ** 2 if inputs["key_mask"][b, k] else 0.0
        losses.append(loss)
    return {"loss": average(losses)}


def reinforce(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    reward, log_p = inputs["reward"], inputs["log_probability"]
    losses = [
        -(reward[d, b] - inputs["baseline"][0, b]) * log_p[d, b] - 0.3 * inputs["entropy"][d, b]
        for d, b in np.ndindex(*reward.shape)
    ]
    return {"loss": average(losses)}


def fertility(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Tu et al. 2016, eq. 8: N sigmoid(U h)."""
    u = array(module.need.weight)[0]
    return {"fertility": np.array([[3 * sigmoid(float(u @ h)) for h in keys] for keys in inputs["features"]])}


def selection(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    totals = []
    for z, e, ok in zip(inputs["selected"], inputs["selection_scores"], inputs["key_mask"], strict=True):
        p = [sigmoid(float(x)) for x in e]
        totals.append(sum(math.log(p[j] if z[j] else 1 - p[j]) for j in range(len(z)) if ok[j]))
    return {"log_probability": np.array(totals, dtype=float)}


def capsule(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    losses = []
    for b, right in enumerate(inputs["target"]):
        f = mean(inputs["features"][b], inputs["key_mask"][b])
        y = [-1 if c == right else 1 for c in range(inputs["probability"].shape[1])]
        j = 1 + sum(y[c] * p for c, p in enumerate(inputs["probability"][b]))
        u = 1 + sum(y[c] * float(f @ r) for c, r in enumerate(inputs["reconstruction"][b]))
        losses.append(max(0.0, j) + max(0.0, u))
    return {"loss": average(losses)}


def cosines(vectors: Array, mask: Array) -> dict[str, Array]:
    """Mean cosine of all pairs of heads at the allowed positions."""
    batch, heads, length, _ = vectors.shape
    losses = []
    for b, t in product(range(batch), range(length)):
        if mask[b, t]:
            pairs = [(vectors[b, i, t], vectors[b, j, t]) for i, j in product(range(heads), repeat=2)]
            losses.append(sum(x @ y / math.sqrt((x @ x) * (y @ y)) for x, y in pairs) / heads**2)
    return {"loss": average(losses)}


def position_agreement(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    weights, losses = inputs["weights"], []
    heads = weights.shape[1]
    for b, t in product(range(weights.shape[0]), range(weights.shape[2])):
        if inputs["query_mask"][b, t]:
            pairs = product(range(heads), repeat=2)
            losses.append(sum(float(np.abs(weights[b, i, t] * weights[b, j, t]).sum()) for i, j in pairs) / heads**2)
    return {"loss": average(losses)}


SIGNAL_ORACLES: dict[str, Oracle] = {
    "supervised attention, cross-entropy": cross_entropy,
    "supervised attention, squared error": squared_error,
    "supervised attention, overlap": overlap,
    "supervised gates": gates,
    "preliminary training from rationales": rationale,
    "attention that was trained on rationales": rationale_attention,
    "auxiliary head trained on syntax": syntax_head,
    "attention transfer (distillation)": distillation,
    "coverage, symbolic": lambda m, i: {"coverage": covered(i["weights"])},
    "coverage by fertility": lambda m, i: {"coverage": covered(i["weights"]) / i["fertility"][:, None, None, :]},
    "predicted fertility": fertility,
    "coverage penalty": coverage_penalty,
    "coverage, sub-symbolic": coverage_vectors,
    "doubly stochastic penalty": doubly_stochastic,
    "REINFORCE with a baseline": reinforce,
    "log-probability of a selection": selection,
    "price of adaptive spans": lambda m, i: {"loss": average([float(z) for z in i["spans"].flat])},
    "capsule joint loss": capsule,
    "disagreement on subspaces": lambda m, i: cosines(i["value"], i["key_mask"]),
    "disagreement on positions": position_agreement,
    "disagreement on outputs": lambda m, i: cosines(i["vectors"], i["query_mask"]),
}
