"""Rocktäschel et al. (2016), §2.1 to §2.4, word by word."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, sigmoid, softmax


def lstm(w: Array, u: Array, b: Array, cell: Array, inputs: Array) -> tuple[Array, Array]:
    """§2.1, eq. 1–6, from a cell on; gates in the order of PyTorch's weights. States, and the last cell."""
    state, states = np.zeros_like(cell), []
    for x in inputs:
        enter, forget, candidate, leave = np.split(w @ x + u @ state + b, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        state = sigmoid(leave) * np.tanh(cell)
        states.append(state)
    return np.stack(states), cell


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table = array(network.embedding.weight)
    first, second = (table[tensors[f"{side}_ids"]] for side in ("first", "second"))
    second = np.concatenate([array(network.delimiter)[0], second])  # the second LSTM reads it first
    first, second = linear(network.project, first), linear(network.project, second)
    cell, other = network.premise.cell, network.hypothesis
    w, u = array(cell.weight_ih_l0), array(cell.weight_hh_l0)
    y, last = lstm(w[:, :-1], u, w[:, -1], np.zeros(u.shape[1]), first)
    bias = array(other.bias_ih_l0) + array(other.bias_hh_l0)
    h, _ = lstm(array(other.weight_ih_l0), array(other.weight_hh_l0), bias, last, second)
    score, d = network.attention.score, len(last)
    w_q, w_y, w_m = (array(each.weight)[0] for each in (score.query_map, score.key_map, score.importance))
    rows, r = [], np.zeros(d)
    if network.keep is None:
        rows.append(softmax(np.tanh(y @ w_y + h[-1] @ w_q) @ w_m[:, 0]))  # eq. 7, 8
        r, name = rows[0] @ y, "first"  # eq. 9
    else:
        for h_t in h[1:]:
            m = np.tanh(y @ w_y + h_t @ w_q[:d] + r @ w_q[d:])  # eq. 11
            rows.append(softmax(m @ w_m[:, 0]))  # eq. 12
            r, name = rows[-1] @ y + np.tanh(linear(network.keep, r)), "second.cross"  # eq. 13
    read = np.tanh(linear(network.found, r) + linear(network.read, h[-1]))  # eq. 10, 14
    return {"logits": linear(network.classify, read), name: np.stack(rows)[None]}
