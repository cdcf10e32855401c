"""Cui et al. (2017), §3."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways_gru, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table = array(network.words.weight)
    query = both_ways_gru(network.read_sentence, table[tensors["first_ids"]])
    document = both_ways_gru(network.read_document, table[tensors["second_ids"]])
    m = np.array([[x @ y for y in query] for x in document])
    alpha = np.stack([softmax(column) for column in m.T])
    beta = np.mean([softmax(row) for row in m], 0)
    if not network.config.over_attention:
        beta = np.full(len(query), 1 / len(query))
    s = sum(weight * row for weight, row in zip(beta, alpha, strict=True))
    total = [
        sum(s[i] for i, word in enumerate(tensors["second_ids"]) if word == each) for each in network.config.answers
    ]
    logits = np.log(np.array(total, float) + 1e-6)
    return {"logits": logits, "sentence": beta[None, None], "document": s[None, None], "affinity": m.T[None]}
