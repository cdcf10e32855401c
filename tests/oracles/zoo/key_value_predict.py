"""Daniluk et al. (2017), §2: attention to the last states of a recurrent language model, whose states have parts."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, gru, linear, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config, prompt, target = network.config, tensors["prompt_ids"], tensors["target_ids"]
    put_in = [*prompt, config.begin, *target[:-1]]
    states, window = gru(network.reads, array(network.words.weight)[put_in]), config.window
    score = network.attention.score
    w_y, w_h, w = (array(each.weight)[0] for each in (score.key_map, score.query_map, score.importance))
    scores, maps = [], []
    for t in range(len(prompt), len(put_in)):
        parts = np.split(states, config.parts, axis=1)
        keys, values, predict = parts[0], parts[1 if config.parts > 1 else 0], parts[-1]
        last = range(max(0, t - window), t)
        alpha = softmax(np.array([(np.tanh(keys[j] @ w_y + keys[t] @ w_h) @ w)[0] for j in last]))
        r = sum(a * values[j] for a, j in zip(alpha, last, strict=True))
        scores.append(linear(network.scores, np.tanh(linear(network.of_read, r) + linear(network.of_own, predict[t]))))
        maps.append([0] * (window - len(last)) + [*alpha])
    return {"scores": np.array(scores), "decoder.memory": np.array(maps)[None]}
