"""Vinyals et al. (2015), §2.1: an LSTM that reads from the end, one that writes, and attention between them."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, sigmoid, softmax


def step(weights: list[Array], x: Array, state: Array, cell: Array) -> tuple[Array, Array]:
    """One step of an LSTM (Hochreiter & Schmidhuber 1997); gates in the order of PyTorch's weights."""
    w, u, b, c = weights
    enter, forget, candidate, leave = np.split(w @ x + b + u @ state + c, 4)
    cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
    return sigmoid(leave) * np.tanh(cell), cell


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    names, score = ("weight_ih", "weight_hh", "bias_ih", "bias_hh"), network.attention.score.score
    h = array(network.source_embedding.weight)[tensors["source_ids"]][::-1]
    layers = []
    for layer, to_cell in zip(network.encoder.layers, network.cells, strict=True):
        weights, states = [array(getattr(layer, f"{name}_l0")) for name in names], []
        state = cell = np.zeros(h.shape[1])
        for x in h:
            state, cell = step(weights, x, state, cell)
            states.append(state)
        h = np.array(states)
        layers.append((state, linear(to_cell, state)))
    h = h[::-1]
    found, scores, rows = np.zeros(h.shape[1]), [], []
    for token in [network.config.begin, *tensors["target_ids"][:-1].tolist()]:
        x = np.concatenate([array(network.target_embedding.weight)[token], found])
        for number, cell in enumerate(network.decoder.cells):
            layers[number] = step([array(getattr(cell, name)) for name in names], x, *layers[number])
            x = layers[number][0]
        if hasattr(score, "importance"):
            w_1, w_2 = array(score.key_map.weight)[0], array(score.query_map.weight)[0]
            u = np.array([np.tanh(h_i @ w_1 + x @ w_2) @ array(score.importance.weight)[0][:, 0] for h_i in h])
        else:
            u = np.where(np.arange(len(h)) == 0, 0, -np.inf)  # what has read all stands first
        rows.append(softmax(u))
        found = rows[-1] @ h
        scores.append(linear(network.scores, np.concatenate([x, found])))
    return {"scores": np.array(scores), "decoder.cross": np.array(rows)[None]}
