"""Rush, Chopra & Weston (2015), §3: a language model of the last words, and the attention-based encoder."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config, source = network.config, tensors["source_ids"]
    e, g, words = array(network.e.weight), array(network.g.weight), array(network.f.weight)[source]
    p, q = array(network.attention.score.query_map.weight)[0], config.smoothing
    around = [words[max(0, i - q) : i + q + 1].sum(0) / q for i in range(len(source))]
    written, scores, rows = [config.begin] * config.context, [], []
    for token in tensors["target_ids"].tolist():
        h = np.tanh(linear(network.u, e[written].ravel()))
        a = softmax(words @ (g[written].ravel() @ p))
        scores.append(linear(network.v, h) + linear(network.w, a @ np.array(around)))
        rows.append(a)
        written = [*written[1:], token]
    return {"scores": np.array(scores), "decoder.cross": np.array(rows)[None]}
