"""Parts that transcriptions of papers share, in NumPy: none of them knows of torch."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def softmax(scores: Array) -> Array:
    """Along the last axis."""
    large = np.exp(scores - scores.max(-1, keepdims=True))
    return large / large.sum(-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def dense(x: Array, weights: Mapping[str, Array], name: str) -> Array:
    """A linear layer by its name in a model's parameters."""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def lstm(x: Array, weights: Mapping[str, Array], name: str) -> Array:
    """States [position, d] of an LSTM (Hochreiter & Schmidhuber 1997), step by step, from zeros."""
    of_input, of_state = weights[f"{name}.weight_ih_l0"], weights[f"{name}.weight_hh_l0"]
    bias = weights[f"{name}.bias_ih_l0"] + weights[f"{name}.bias_hh_l0"]
    state = cell = np.zeros(of_state.shape[1])
    states = []
    for step in x:
        let_in, forget, candidate, let_out = np.split(of_input @ step + of_state @ state + bias, 4)
        cell = sigmoid(forget) * cell + sigmoid(let_in) * np.tanh(candidate)
        state = sigmoid(let_out) * np.tanh(cell)
        states.append(state)
    return np.stack(states)


def bidirectional(x: Array, weights: Mapping[str, Array], name: str) -> Array:
    """States of two LSTMs side by side, the second of which reads from the end."""
    backward = lstm(x[::-1], weights, f"{name}.reverse")[::-1]
    return np.concatenate([lstm(x, weights, f"{name}.onward"), backward], -1)
