"""Cui et al. (2017), §3."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, sigmoid, softmax


def gru(layer: Any, inputs: Array) -> Array:
    """The states of a GRU (Cho et al. 2014); gates in the order of PyTorch's weights."""
    w, u, b, c = (array(getattr(layer, f"{name}_l0")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    state, states = np.zeros(u.shape[1]), []
    for x in inputs:
        (reset, update, new), (of_reset, of_update, kept) = np.split(w @ x + b, 3), np.split(u @ state + c, 3)
        share = sigmoid(update + of_update)
        state = (1 - share) * np.tanh(new + sigmoid(reset + of_reset) * kept) + share * state
        states.append(state)
    return np.stack(states)


def read(encoder: Any, inputs: Array) -> Array:
    return np.concatenate([gru(encoder.onward, inputs), gru(encoder.reverse, inputs[::-1])[::-1]], -1)


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table = array(network.words.weight)
    query = read(network.read_sentence, table[tensors["first_ids"]])
    document = read(network.read_document, table[tensors["second_ids"]])
    m = np.array([[x @ y for y in query] for x in document])
    alpha = np.stack([softmax(column) for column in m.T])
    beta = np.mean([softmax(row) for row in m], 0)
    if not network.config.over_attention:
        beta = np.full(len(query), 1 / len(query))
    s = sum(weight * row for weight, row in zip(beta, alpha, strict=True))
    total = [
        sum(s[i] for i, word in enumerate(tensors["second_ids"]) if word == each) for each in network.config.answers
    ]
    logits = np.log(np.array(total, float) + 1e-6)
    return {"logits": logits, "sentence": beta[None, None], "document": s[None, None], "affinity": m.T[None]}
