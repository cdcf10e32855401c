"""Cheng et al. (2016): what is served is the source-to-target RNNsearch of Bahdanau et al. (2015), appendix A."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, sigmoid, softmax


def gru(layer: Any, x: Array, state: Array, end: str = "") -> Array:
    """A step of a gated unit; gates in the order of PyTorch's weights, its reset gate behind the map of the state."""
    w, u, b, c = (array(getattr(layer, f"{name}{end}")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(w @ x + b, 3), np.split(u @ state + c, 3)
    keep = sigmoid(z_x + z_h)
    return (1 - keep) * np.tanh(n_x + sigmoid(r_x + r_h) * n_h) + keep * state


def states(layer: Any, inputs: Array) -> Array:
    """Every state from zeros on."""
    state, found = np.zeros(array(layer.weight_hh_l0).shape[1]), []
    for x in inputs:
        state = gru(layer, x, state, "_l0")
        found.append(state)
    return np.stack(found)


def translated(network: Any, source: Array, put_in: list[int]) -> tuple[Array, Array]:
    """Scores of the token behind each that is put in, and weights over the source, from a source without padding."""
    x, y = array(network.source_embedding.weight)[source], array(network.target_embedding.weight)
    onward, backward = states(network.encoder.onward, x), states(network.encoder.reverse, x[::-1])[::-1]
    h = np.concatenate([onward, backward], -1)
    s, score = np.tanh(linear(network.initial, backward[0])), network.prepared.score
    w_a, b_a = array(score.query_map.weight)[0], array(score.query_map.bias).reshape(-1)
    u_a, v_a = array(score.key_map.weight)[0], array(score.importance.weight)[0][:, 0]
    scores, rows = [], []
    for token in put_in:
        a = softmax(np.array([v_a @ np.tanh(s @ w_a + b_a + h_j @ u_a) for h_j in h]))
        c = a @ h
        t = linear(network.readout, np.concatenate([s, y[token], c])).reshape(-1, 2).max(-1)
        scores.append(linear(network.scores, t))
        s = gru(network.decoder, np.concatenate([y[token], c]), s)
        rows.append(a)
    return np.stack(scores), np.stack(rows)


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    put_in = [network.config.begin, *tensors["target_ids"][:-1].tolist()]
    scores, weights = translated(network, tensors["source_ids"], put_in)
    return {"scores": scores, "decoder.cross": weights[None]}
