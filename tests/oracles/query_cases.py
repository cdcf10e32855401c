"""Oracles of queries, by the mechanism's name."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracles import alignments, plain, scores
from tests.oracles.cases import Array, Oracle, array, bias, linear
from tests.oracles.plain import attend, mean, row, stacked


def average_query(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    score, found = plain.additive(module.attention), []
    for u, f, u_ok, ok in zip(*(inputs[n] for n in ("question", "features", "question_mask", "mask")), strict=True):
        a, c = attend(score, mean(u, u_ok), f, ok)
        found.append((c, row(a)))
    return stacked(found, "context", "weights")


def pool(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """One question for all: left out, or a parameter."""
    trained = module.query is not None
    score = scores.dot if trained else plain.self_attentive(module.attention)
    query = array(module.query.query)[0, 0] if trained else np.zeros(0)
    found = []
    for f, ok in zip(inputs["features"], inputs["mask"], strict=True):
        a, c = attend(score, query, f, ok)
        found.append((c, row(a)))
    return stacked(found, "context", "weights")


def self_attention(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Q = W_Q F, K = W_K F, V = W_V F, scaled dot, then Normalize(f + c)."""
    w_q, w_k, w_v = (array(m.weight) for m in (module.query_map, module.key_map, module.value_map))
    gain, shift, found = array(module.norm.weight), array(module.norm.bias), []
    for f, ok in zip(inputs["features"], inputs["mask"], strict=True):
        keys, values = f @ w_k.T, f @ w_v.T
        rows, new = [], []
        for x in f:
            a, c = attend(scores.scaled_dot, w_q @ x, keys, ok, values)
            total = x + c
            new.append((total - total.mean()) / math.sqrt(total.var() + 1e-5) * gain + shift)
            rows.append(a)
        found.append((np.stack(new), np.stack(rows)[None]))
    return stacked(found, "context", "weights")


def heads_by(module: Any, inputs: dict[str, Array], score_of: Callable[[int], plain.Score]) -> dict[str, Array]:
    """Vaswani et al. 2017, §3.2.2, head by head."""
    maps = (module.query_map, module.key_map, module.value_map)
    size, found = len(maps[0].weight) // module.heads, []
    for u, f, ok in zip(inputs["question"], inputs["features"], inputs["mask"], strict=True):
        query, key, value = (x @ array(m.weight).T + array(m.bias) for x, m in zip((u, f, f), maps, strict=True))
        heads, weights = [], []
        for h in range(module.heads):
            part = slice(h * size, (h + 1) * size)
            pairs = [attend(score_of(h), q[part], key[:, part], ok, value[:, part]) for q in query]
            weights.append([a for a, _ in pairs])
            heads.append([c for _, c in pairs])
        together = np.concatenate([np.array(h) for h in heads], -1)
        found.append((together @ array(module.merge.weight).T + array(module.merge.bias), np.array(weights)))
    return stacked(found, "context", "weights")


def multi_head(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    return heads_by(module, inputs, lambda h: scores.scaled_dot)


def syntactic_head(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Strubell et al. 2018: the first head scores kᵀ (U q + b), the others as ever."""
    first = module.attention.score.scores[0]
    u, b = linear(first.query_map, 0), bias(first.query_map, 0)
    return heads_by(
        module, inputs, lambda h: scores.scaled_dot if h else lambda q, k: scores.biased_general(q, k, u, b)
    )


def auxiliary(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """BF §3.3.1: q = tanh(W x + b) of the variables x."""
    score, found = plain.additive(module.attention), []
    for x, f, ok in zip(inputs["variables"], inputs["features"], inputs["mask"], strict=True):
        query = np.tanh(array(module.ask.weight) @ x + array(module.ask.bias))
        a, c = attend(score, query, f, ok)
        found.append((c, row(a)))
    return stacked(found, "context", "weights")


def decoder(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Bahdanau et al. 2015: the state asks, what it finds goes into a GRU with the last output."""
    score, found = plain.additive(module.attention), []
    for state, outputs, f, ok in zip(*(inputs[n] for n in ("state", "outputs", "features", "mask")), strict=True):
        states, contexts, maps = [], [], []
        for y in outputs:
            a, c = attend(score, state, f, ok)
            state = plain.gru(module.cell, np.concatenate([y, c]), state)
            states.append(state)
            contexts.append(c)
            maps.append(a)
        found.append((np.array(states), np.array(contexts), np.array(maps)[None]))
    return stacked(found, "states", "context", "weights")


def shared_hops(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Memory networks: q ← q + c, the same attention three times."""
    score, found = plain.additive(module.hops[0]), []
    for u, f, ok in zip(inputs["question"], inputs["features"], inputs["mask"], strict=True):
        maps, queries = [], list(u)
        for _ in range(3):
            pairs = [attend(score, q, f, ok) for q in queries]
            maps += [a for a, _ in pairs]
            queries = [q + c for q, (_, c) in zip(queries, pairs, strict=True)]
        found.append((np.array([c for _, c in pairs]), np.array(maps)[None]))
    return stacked(found, "context", "weights")


def context_hops(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """BF eq. 41–42: q ← tanh(W [q; c] + b), scored with c beside it, from the average of the values."""
    w, b = array(module.transform.mix.weight), array(module.transform.mix.bias)
    found = []
    for u, f, ok in zip(inputs["question"], inputs["features"], inputs["mask"], strict=True):
        maps, state = [], [(q, mean(f, ok)) for q in u]
        for attention in module.hops:
            score, after = plain.additive(attention), []
            for q, c in state:
                q = np.tanh(w @ np.concatenate([q, c]) + b)
                a, c = attend(score, np.concatenate([q, c]), f, ok)
                maps.append(a)
                after.append((q, c))
            state = after
        found.append((np.array([c for _, c in state]), np.array(maps)[None]))
    return stacked(found, "context", "weights")


def question_hops(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """BF §3.3.2: the question is read with the last query, what was found, or both; the features with [q; c]."""
    found = []
    for u, f, u_ok, ok in zip(*(inputs[n] for n in ("question", "features", "question_mask", "mask")), strict=True):
        q, c, asked, looked = mean(u, u_ok), mean(f, ok), [], []
        for ask, look in zip(module.over_question, module.over_features, strict=True):
            asking = {"query": [q], "context": [c], "both": [q, c]}[module.asks]
            a, q = attend(plain.additive(ask), np.concatenate(asking), u, u_ok)
            asked.append(a)
            a, c = attend(plain.additive(look), np.concatenate([q, c]), f, ok)
            looked.append(a)
        found.append((c, np.array(asked)[None], np.array(looked)[None]))
    return stacked(found, "context", "question_weights", "weights")


def capsules(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    """Wang et al. 2018: attention, probability and reconstruction of each class."""
    queries, layer = array(module.capsules.query.query)[0], module.probability.map
    found = []
    for f, ok in zip(inputs["features"], inputs["mask"], strict=True):
        pairs = [attend(scores.dot, q, f, ok) for q in queries]
        p = [alignments.sigmoid(float(linear(layer, c)[0] @ v + bias(layer, c)[0])) for c, (_, v) in enumerate(pairs)]
        contexts = np.array([v for _, v in pairs])
        found.append((contexts, np.array(p), np.array(p)[:, None] * contexts, np.array([a for a, _ in pairs])[None]))
    return stacked(found, "context", "probability", "reconstruction", "weights")


def label_wise(module: Any, inputs: dict[str, Array]) -> dict[str, Array]:
    score, found = plain.additive(module.attention), []
    for f, ok in zip(inputs["features"], inputs["mask"], strict=True):
        pairs = [attend(score, q, f, ok) for q in array(module.query.query)[0]]
        found.append((np.array([c for _, c in pairs]), np.array([a for a, _ in pairs])[None]))
    return stacked(found, "context", "weights")


QUERY_ORACLES: dict[str, Oracle] = {
    "basic query": decoder,
    "basic query of auxiliary variables": auxiliary,
    "specialised query, average": average_query,
    "self-attentive query, left out": pool,
    "self-attentive query, trained": pool,
    "self-attentive query, token to token": self_attention,
    "multi-head": multi_head,
    "multi-hop, shared weights": shared_hops,
    "multi-hop, context in the query": context_hops,
    "multi-hop, question reread": question_hops,
    "multi-hop, question reread with what was found": question_hops,
    "multi-head with a syntactic head": syntactic_head,
    "capsule-based": capsules,
    "label-wise": label_wise,
}
