"""Oracles of the general attention module, by the mechanism's name."""

import math
from typing import Any

import numpy as np

from tests.oracles import alignments, scores
from tests.oracles.cases import Array, Oracle, Row, array, bias, by_row, linear, summed


def attended(attention: Any, inputs: dict[str, Array], score: Any) -> tuple[Array, Array]:
    """K = W_K F, V = W_V F, softmax, weighted sum; score(query index, key) [batch, query, …]."""
    features, mask = inputs["features"], inputs["mask"]
    keys, values = features @ array(attention.key_map.weight).T, features @ array(attention.value_map.weight).T
    queries = inputs["query"].shape[1] if "query" in inputs else 1
    weights, contexts = [], []
    for b in range(len(features)):
        e = np.array([[score(b, i, k) for k in keys[b]] for i in range(queries)])
        a = np.stack([alignments.softmax(row, mask[b, 0, 0]) for row in e])
        weights.append(a[None])
        contexts.append(np.stack([summed(row, values[b]) for row in a]))
    return np.stack(weights), np.stack(contexts)


def general_module(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    s = module.attention.score
    arguments = linear(s.query_map, 0), linear(s.key_map, 0), bias(s.query_map, 0), linear(s.importance, 0)[0]
    weights, context = attended(module, inputs, lambda b, i, k: scores.additive(inputs["query"][b, i], k, *arguments))
    return {"weights": weights, "context": context}


def task_model(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    encoder, attention = module.feature_model[0], module.attention_model
    encoded = np.tanh(inputs["features"] @ array(encoder.weight).T + array(encoder.bias))
    s = attention.attention.score
    arguments = linear(s.key_map, 0), bias(s.key_map, 0), linear(s.importance, 0)[0]
    weights, context = attended(
        attention, inputs | {"features": encoded}, lambda b, i, k: scores.self_attentive(k, *arguments)
    )
    output = module.output_model
    return {"weights": weights, "outputs": context @ array(output.weight).T + array(output.bias)}


def asking_model(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """BF Fig. 1 with its query model: every position of F makes a query, by a linear map, over all of F."""
    encoder, attention, ask = module.feature_model[0], module.attention_model, module.query_model
    encoded = np.tanh(inputs["features"] @ array(encoder.weight).T + array(encoder.bias))
    queries = encoded @ array(ask.weight).T + array(ask.bias)
    s = attention.attention.score
    arguments = linear(s.query_map, 0), linear(s.key_map, 0), bias(s.query_map, 0), linear(s.importance, 0)[0]
    weights, context = attended(
        attention,
        {"features": encoded, "query": queries, "mask": inputs["mask"]},
        lambda b, i, k: scores.additive(queries[b, i], k, *arguments),
    )
    output = module.output_model
    return {"weights": weights, "outputs": context @ array(output.weight).T + array(output.bias)}


def scaled_dot(module: Any, r: Row) -> Array:
    return alignments.softmax(np.array([scores.scaled_dot(r.query, k) for k in r.keys]), r.allowed)


def gated(module: Any, r: Row, a: Array) -> Array:
    """Shen et al. 2018a: g ⊙ q + (1 - g) ⊙ s."""
    s = summed(a, r.values)
    weight, offset = array(module.combine.gate.weight), array(module.combine.gate.bias)
    g = np.array([alignments.sigmoid(x) for x in weight @ np.concatenate([s, r.query]) + offset])
    return g * r.query + (1 - g) * s


def nadaraya_watson(module: Any, r: Row) -> Array:
    """A normalised Gaussian kernel of bandwidth 1."""
    kernel = [math.exp(-float(np.sum((r.query - k) ** 2)) / 2) for k in r.keys]
    return alignments.ratio(np.array(kernel), r.allowed)


GENERAL_ORACLES: dict[str, Oracle] = {
    "task model": task_model,
    "task model with a query model": asking_model,
    "general attention module": general_module,
    "gated combination": by_row(scaled_dot, gated),
    "Nadaraya-Watson regression": by_row(nadaraya_watson),
}
