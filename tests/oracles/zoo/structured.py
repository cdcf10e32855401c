"""Lin et al. (2017), §2: a matrix of which each row is another weighted sum of the words."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, linear, relu, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    states = both_ways(network.encoder, array(network.embedding.weight)[tensors["token_ids"]])
    score = network.pool.attention.score
    hidden = np.tanh(states @ array(score.key_map.weight)[0])
    a = softmax((hidden @ array(score.importance.weight)[0]).T)  # eq. 6: [row, token]
    assert len(a) == network.config.rows
    above = relu(linear(network.classify[1], (a @ states).reshape(-1)))  # eq. 7
    apart = np.array(np.linalg.norm(a @ a.T - np.eye(len(a)), "fro") ** 2)  # eq. 8
    return {"logits": linear(network.classify[4], above), "pool": a[:, None], "signal.penalty": apart}
