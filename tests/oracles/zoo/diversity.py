"""Mohankumar et al. (2020), §2 and §4.1."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, lstm, sigmoid, softmax


def orthogonal(layer: Any, inputs: Array) -> Array:
    """Each state without its part along the mean of those before; gates in the order of PyTorch's weights."""
    w, u, b, c = (array(getattr(layer, name)) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    state = cell = np.zeros(u.shape[1])
    states: list[Array] = []
    for x in inputs:
        enter, forget, candidate, leave = np.split(w @ x + b + u @ state + c, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        state = sigmoid(leave) * np.tanh(cell)
        if states:
            mean = np.mean(states, 0)
            state = state - (state @ mean) / (mean @ mean) * mean
            assert abs(state @ mean) < 1e-12
        states.append(state)
    return np.stack(states)


def cosine(x: Array, y: Array) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    words = array(network.embedding.weight)[tensors["token_ids"]]
    h = orthogonal(network.encoder.cell, words) if network.config.orthogonal else lstm(network.encoder, words)
    score = network.pool.attention.score
    w, b = array(score.key_map.weight)[0].T, array(score.key_map.bias)[0, 0]
    v = array(score.importance.weight)[0, :, 0]
    weights = softmax(np.array([v @ np.tanh(w @ each + b) for each in h]))
    mean = h.mean(0)
    alike = [cosine(each, mean) for each in h]
    pairs = [cosine(x, y) for i, x in enumerate(h) for y in h[:i]]
    return {
        "logits": linear(network.classify.linear, weights @ h),
        "pool": weights[None, None],
        "signal.conicity": np.array(np.mean(alike)),
        "signal.cosine": np.array(np.mean(pairs) if pairs else 0.0),
    }
