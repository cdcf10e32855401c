"""Barbieri et al. (2018), §3."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    words = array(network.embedding.weight)[tensors["token_ids"]]
    lower = both_ways(network.lower, words)
    h = np.concatenate([words, lower, both_ways(network.upper, lower)], -1)
    weights, logits = [], []
    for query in array(network.attention.query.query)[0]:
        weights.append(softmax(np.array([query @ each for each in h])))
    w, b = array(network.classify.map.weight)[:, :, 0], array(network.classify.map.bias)[:, 0, 0]
    for label in range(len(w)):
        alpha = weights[label] if len(weights) > 1 else weights[0]  # one row where labels share it
        logits.append(w[label] @ (alpha @ h) + b[label])
    return {"logits": np.array(logits), "label": np.stack(weights)[None]}
