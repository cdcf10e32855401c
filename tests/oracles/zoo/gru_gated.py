"""Zhang et al. (2020): RNNsearch of Bahdanau et al. (2015), appendix A, over annotations that each step refines."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, softmax
from tests.oracles.zoo.agreement import gru, states


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    x, y = array(network.source_embedding.weight)[tensors["source_ids"]], array(network.target_embedding.weight)
    onward, backward = states(network.encoder.onward, x), states(network.encoder.reverse, x[::-1])[::-1]
    h = np.concatenate([onward, backward], -1)
    s, score = np.tanh(linear(network.initial, backward[0])), network.prepared.score
    w_a, b_a = array(score.query_map.weight)[0], array(score.query_map.bias).reshape(-1)
    u_a, v_a = array(score.key_map.weight)[0], array(score.importance.weight)[0][:, 0]
    scores, rows = [], []
    for token in [network.config.begin, *tensors["target_ids"][:-1].tolist()]:
        refined = np.array([gru(network.refine, s, h_i) for h_i in h])
        a = softmax(np.array([v_a @ np.tanh(s @ w_a + b_a + h_i @ u_a) for h_i in refined]))
        c = a @ refined
        t = linear(network.readout, np.concatenate([s, y[token], c])).reshape(-1, 2).max(-1)
        scores.append(linear(network.scores, t))
        s = gru(network.decoder, np.concatenate([y[token], c]), s)
        rows.append(a)
    return {"scores": np.stack(scores), "decoder.cross": np.stack(rows)[None]}
