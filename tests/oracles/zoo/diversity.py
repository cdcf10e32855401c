"""Mohankumar et al. (2020), §2."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, lstm, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    h = lstm(network.encoder, array(network.embedding.weight)[tensors["token_ids"]])
    score = network.pool.attention.score
    w, b = array(score.key_map.weight)[0].T, array(score.key_map.bias)[0, 0]
    v = array(score.importance.weight)[0, :, 0]
    weights = softmax(np.array([v @ np.tanh(w @ each + b) for each in h]))
    mean = h.mean(0)
    alike = [each @ mean / np.linalg.norm(each) / np.linalg.norm(mean) for each in h]
    return {
        "logits": linear(network.classify.linear, weights @ h),
        "pool": weights[None, None],
        "signal.conicity": np.array(np.mean(alike)),
    }
