"""Published models written once more from their papers, in NumPy with plain loops, an instance at a time.

A file is called as the model's file in `models/zoo`; its function `answer` takes the network, for its parameters alone,
and the tensors of one instance without batch axis and padding, and gives every output and map by name.
"""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array

Tensors = dict[str, Array]


def softmax(scores: Array) -> Array:
    """Over the last axis."""
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def relu(values: Array) -> Array:
    """max(0, x)."""
    return np.maximum(values, 0)


def sigmoid(values: Array) -> Array:
    """1 / (1 + e⁻ˣ)."""
    return 1 / (1 + np.exp(-values))


def linear(layer: Any, values: Array) -> Array:
    """W x, and b where there is one, for each row."""
    made = values @ array(layer.weight).T
    return made if layer.bias is None else made + array(layer.bias)


def lstm(layer: Any, inputs: Array) -> Array:
    """The states of an LSTM (Hochreiter & Schmidhuber 1997); gates in the order of PyTorch's weights."""
    w, u, b, c = (array(getattr(layer, f"{name}_l0")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    state = cell = np.zeros(u.shape[1])
    states = []
    for x in inputs:
        enter, forget, candidate, leave = np.split(w @ x + b + u @ state + c, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        state = sigmoid(leave) * np.tanh(cell)
        states.append(state)
    return np.stack(states)


def both_ways(encoder: Any, inputs: Array) -> Array:
    """A bidirectional LSTM: onward and backward states side by side."""
    return np.concatenate([lstm(encoder.onward, inputs), lstm(encoder.reverse, inputs[::-1])[::-1]], -1)
