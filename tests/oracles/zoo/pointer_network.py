"""Vinyals et al. (2015), §2.2 and §2.3: an output layer that reads what attention found, and attention that answers."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, linear, sigmoid, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    points, d = linear(network.embedding, tensors["points"]), network.config.d
    known = both_ways(network.encoder, points)
    state, cell = np.split(np.tanh(linear(network.start, known[0])), 2)
    w, u, b, c = (array(getattr(network.decoder, name)) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    score = network.attention.score
    w_2, w_1, v = (array(each.weight)[0] for each in (score.query_map, score.key_map, score.importance))
    bias = array(score.query_map.bias)[0]
    order: list[int] = []
    answers, rows = [], []
    x = array(network.begin)
    for _ in points:
        enter, forget, candidate, leave = np.split(w @ x + b + u @ state + c, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        state = sigmoid(leave) * np.tanh(cell)
        gone = [j in order[1:] and j != order[0] for j in range(len(points))]  # the first may come again: the end
        scores = np.tanh(known @ w_1 + state @ w_2 + bias) @ v[:, 0]
        row = softmax(np.where(gone, -np.inf, scores))
        likely = row
        if network.put_out is not None:
            put_out = linear(network.put_out, np.concatenate([state, row @ known]))[: len(points)]
            likely = softmax(np.where(gone, -np.inf, put_out))
        answers.append(likely)
        rows.append(row)
        order.append(int(likely.argmax()))
        x = points[order[-1]]
    assert d == len(state)
    return {"pointers": np.stack(answers), "decoder.cross": np.stack(rows)[None]}
