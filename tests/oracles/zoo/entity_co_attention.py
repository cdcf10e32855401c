"""Nie et al. (2018), as Galassi et al. (2021), Table 4, has its attention: a perceptron with nested attention."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, linear, relu, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    words = (array(network.embedding.weight)[tensors[f"{side}_ids"]] for side in ("first", "second"))
    k, q = (both_ways(network.encoder, each) for each in words)
    u, nested = array(network.pool.attention.score.query_map.weight)[0], network.pool.aggregate
    w_1, w_2 = (array(each.weight)[0] for each in (nested.first_map, nested.second_map))
    w_3, w_4 = (array(each.weight)[0][:, 0] for each in (nested.first_importance, nested.second_importance))
    e = np.tanh(k @ u @ q.T)
    of_k = np.array([w_3 @ np.tanh(k_i @ w_1 + softmax(e[i]) @ (q @ w_2)) for i, k_i in enumerate(k)])
    of_q = np.array([w_4 @ np.tanh(q_j @ w_2 + softmax(e[:, j]) @ (k @ w_1)) for j, q_j in enumerate(q)])
    a_k, a_q = softmax(of_k), softmax(of_q)
    mention, description = a_k @ k, a_q @ q
    hidden = np.concatenate([mention, description, mention - description, mention * description])
    logits = linear(network.compare[3], relu(linear(network.compare[0], hidden)))
    return {"logits": logits, "first": a_k[None, None], "second": a_q[None, None], "affinity": e[None]}
