"""See, Liu & Manning (2017), §2.1 to 2.3: equations 1 to 13."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, lstm, relu, sigmoid, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    source, embedding, config = tensors["source_ids"], array(network.embedding.weight), network.config
    x = embedding[source]
    h = np.concatenate([lstm(network.encoder.onward, x), lstm(network.encoder.reverse, x[::-1])[::-1]], -1)
    state, cell = np.split(relu(linear(network.initial, h[0])), 2)
    score, decoder = network.attention.score.score, network.decoder
    w, u, b, b_h = (array(getattr(decoder, name)) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    w_s, b_a = array(score.query_map.weight)[0], array(score.query_map.bias).reshape(-1)
    w_h, v = array(score.key_map.weight)[0], array(score.importance.weight)[0][:, 0]
    w_c = array(score.coverage_map.weight)[:, 0] if config.coverage else np.zeros(len(v))
    coverage, found = np.zeros(len(source)), []
    for token in [config.begin, *tensors["target_ids"][:-1].tolist()]:
        y = embedding[token]
        enter, forget, candidate, leave = np.split(w @ y + b + u @ state + b_h, 4)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        state = sigmoid(leave) * np.tanh(cell)
        e = [v @ np.tanh(h_i @ w_h + state @ w_s + w_c * c_i + b_a) for h_i, c_i in zip(h, coverage, strict=True)]
        a = softmax(np.array(e))
        coverage = coverage + a
        context = a @ h
        p = softmax(linear(network.vocabulary, linear(network.readout, np.concatenate([state, context]))))
        p_gen = 1.0
        if config.copies:
            p_gen = float(sigmoid(linear(network.gate.writing, np.concatenate([context, state, y])))[0])
            p = p_gen * p
            for word, weight in zip(source, a, strict=True):
                p[word] += (1 - p_gen) * weight
        found.append((np.log(p + 1e-30 * config.copies), a, np.array([p_gen, 1 - p_gen])))
    scores, rows, gates = (np.stack(each) for each in zip(*found, strict=True))
    made = {"scores": scores, "decoder.cross": rows[None]}
    return {**made, "decoder.gate": gates[None]} if config.copies else made
