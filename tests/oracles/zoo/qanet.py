"""A. W. Yu et al. (2018), §2.2."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, layernorm, linear, multi_head, relu, sigmoid, sines, softmax


def convolution(layer: Any, x: Array) -> Array:
    """A filter of each feature, then a mixture of features; zeros beyond the ends."""
    filters, mix = array(layer.depthwise.weight)[:, 0], array(layer.pointwise.weight)[:, :, 0]
    width, rows = filters.shape[1], []
    for place in range(len(x)):
        found = np.zeros(x.shape[1])
        for offset in range(width):
            at = place + offset - width // 2
            if 0 <= at < len(x):
                found += filters[:, offset] * x[at]
        rows.append(relu(mix @ found + array(layer.pointwise.bias)))
    return np.stack(rows)


def block(layer: Any, x: Array) -> tuple[Array, Array]:
    x = x + sines(range(len(x)), x.shape[1])
    for norm, each in zip(layer.before, layer.convolutions, strict=True):
        x = x + convolution(each, layernorm(norm, x))
    maps = np.zeros(0)
    if layer.own is not None:
        normed = layernorm(layer.before_attention, x)
        found, maps = multi_head(layer.own, normed, normed)
        x = x + found
    hidden = relu(linear(layer.hidden[0], layernorm(layer.before_hidden, x)))
    return x + linear(layer.hidden[2], hidden), maps


def read(network: Any, ids: Array) -> Array:
    """Words, through highway layers (Srivastava et al. 2015, eq. 3), in the size of the blocks."""
    x, (*highways, resize) = array(network.words.weight)[ids], network.read
    for layer in highways:
        gate = sigmoid(linear(layer.gate, x))
        x = relu(linear(layer.change, x)) * gate + x * (1 - gate)
    return linear(resize, x)


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    maps = {}
    q, maps["question.self"] = block(network.encoder, read(network, tensors["first_ids"]))
    c, maps["passage.self"] = block(network.encoder, read(network, tensors["second_ids"]))
    of_q, of_c, of_both = np.split(array(network.between.attention.score.weight.weight)[0, :, 0], 3)
    s = np.array([[of_q @ y + of_c @ x + of_both @ (x * y) for y in q] for x in c])
    row, column = softmax(s), softmax(s.T).T
    maps["passage.cross"], maps["question.cross"] = row[None], column.T[None]
    a, b = row @ q, row @ column.T @ c
    state, made = linear(network.resize, np.concatenate([c, a, c * a, c * b], -1)), []
    for number in range(3):
        for place, each in enumerate(network.blocks):
            state, maps[f"pass{number}.{place}.self"] = block(each, state)
        made.append(state)
    m0, m1, m2 = made
    outputs = {
        "start_scores": linear(network.start, np.concatenate([m0, m1], -1))[:, 0],
        "end_scores": linear(network.end, np.concatenate([m0, m2], -1))[:, 0],
    }
    return outputs | {name: each for name, each in maps.items() if each.size}
