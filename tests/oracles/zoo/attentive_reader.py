"""Hermann et al. (2015), §3.2, with GRUs."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways_gru, linear, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table, half = array(network.words.weight), network.config.d_hidden
    question = both_ways_gru(network.read_question, table[tensors["first_ids"]])
    y = both_ways_gru(network.read_document, table[tensors["second_ids"]])
    u = np.concatenate([question[-1, :half], question[0, half:]])
    score = network.attention.score
    w_um, w_ym, w_ms = (array(each.weight)[0] for each in (score.query_map, score.key_map, score.importance))
    s = softmax(np.tanh(y @ w_ym + u @ w_um) @ w_ms[:, 0])
    g = np.tanh(linear(network.joint, np.concatenate([s @ y, u])))
    return {"logits": linear(network.classify, g), "document": s[None, None]}
