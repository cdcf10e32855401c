"""Cheng, Dong & Lapata (2016), §3.2: a token at a time, each looking at those before it."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, relu, sigmoid, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    words, own, d = array(network.embedding.weight)[tensors["token_ids"]], network.encoder, network.config.d
    score = own.attention.score.score
    w_q, w_h, v = (array(each.weight)[0] for each in (score.query_map, score.key_map, score.importance))
    w_x, w_read = w_q[: words.shape[1]], w_q[words.shape[1] :]
    states, cells, weights = np.zeros((0, d)), np.zeros((0, d)), np.zeros((len(words), len(words)))
    read = np.zeros(d)
    for t, x in enumerate(words):
        if network.config.tape and t:
            weights[t, :t] = softmax(np.array([v[:, 0] @ np.tanh(h @ w_h + x @ w_x + read @ w_read) for h in states]))
        elif t:
            weights[t, t - 1] = 1  # an LSTM
        read, cell = weights[t, :t] @ states, weights[t, :t] @ cells
        enter, forget, leave, new = np.split(linear(own.gates, np.concatenate([read, x])), 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(new)
        states, cells = np.vstack([states, sigmoid(leave) * np.tanh(cell)]), np.vstack([cells, cell])
    logits = linear(network.classify, relu(linear(network.hidden, states.mean(0))))
    return {"logits": logits, "encoder.self": weights[None]}
