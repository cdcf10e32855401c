"""Sordoni et al. (2016), §3: a search that looks at sentence and document by turns, with gates or without."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways_gru, linear, relu, sigmoid, softmax
from tests.oracles.zoo.agreement import gru


def gate(layers: Any, x: Array) -> Array:
    """g: a hidden layer of relu, and a sigmoid."""
    return sigmoid(linear(layers[2], relu(linear(layers[0], x))))


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table, ids = array(network.words.weight), tensors["second_ids"]
    q_all = both_ways_gru(network.read_sentence, table[tensors["first_ids"]])
    d_all = both_ways_gru(network.read_document, table[ids])
    (a_q, b_q), (a_d, b_d) = (
        (array(each.score.query_map.weight)[0], array(each.score.query_map.bias).reshape(-1))
        for each in (network.over_sentence, network.over_document)
    )
    s, asked, found = np.zeros(network.config.d_state), [], []
    for _ in range(network.config.steps):
        asked.append(softmax(q_all @ (s @ a_q + b_q)))
        q = asked[-1] @ q_all
        found.append(softmax(d_all @ (np.concatenate([s, q]) @ a_d + b_d)))
        d = found[-1] @ d_all
        if network.config.gated:
            x = np.concatenate([s, q, d, q * d])
            q, d = gate(network.gate_sentence, x) * q, gate(network.gate_document, x) * d
        s = gru(network.infer, np.concatenate([q, d]), s)
    total = [sum(found[-1][i] for i, word in enumerate(ids) if word == each) for each in network.config.answers]
    logits = np.log(np.array(total, float) + 1e-6)
    return {"logits": logits, "sentence": np.array(asked)[None], "document": np.array(found)[None]}
