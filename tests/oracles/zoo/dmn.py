"""Kumar et al. (2016), §2: a word, a fact and a pass at a time."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, gru, gru_step, linear, sigmoid


def gate(own: Any, c: Array, m: Array, q: Array) -> Array:
    w_b = array(own.bilinear.weight)
    z = np.concatenate([c, m, q, c * q, c * m, abs(c - q), abs(c - m), [c @ w_b @ q, c @ w_b @ m]])
    return sigmoid(linear(own.output, np.tanh(linear(own.hidden, z))))


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    table, own = array(network.words.weight), network.episodes
    sentences = [row[real] for row, real in zip(tensors["token_ids"], tensors["token_mask"], strict=True)]
    states = gru(network.story, table[np.concatenate(sentences)])
    facts = [states[end - 1] for end in np.cumsum([len(each) for each in sentences])]
    m = q = gru(network.question, table[tensors["question_ids"]])[-1]
    passes = []
    for _ in range(network.config.passes):
        gates = [gate(own.attention.score, c, m, q) for c in facts]
        h = np.zeros_like(q)
        for c, g in zip(facts, gates, strict=True):
            h = g * gru_step(own.episode, c, h) + (1 - g) * h
        m = gru_step(own.update, h, m)
        passes.append(np.concatenate(gates))
    return {"logits": linear(network.answer, gru_step(network.tell, q, m)), "passes": np.stack(passes)[None]}
