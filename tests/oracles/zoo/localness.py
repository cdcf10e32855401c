"""Yang et al. (2018), §3, in the Transformer of Vaswani et al. (2017): a query and a head at a time."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, post_norm, sigmoid, sines, softmax
from tests.oracles.zoo.universal import attended, normed, transition


def local(heads: Any, x: Array) -> tuple[Array, Array]:
    """Scaled dot products and G of every head: outputs, and weights [head, query, key]."""
    q, k, v = linear(heads.query_map, x), linear(heads.key_map, x), linear(heads.value_map, x)
    score, n, size = heads.attention.score, len(x), q.shape[1] // heads.heads
    output, weights = np.zeros_like(q), np.zeros((heads.heads, n, n))
    for h, i in np.ndindex(heads.heads, n):
        part = slice(h * size, (h + 1) * size)
        read = np.tanh(linear(score.hidden, q[i, part]))
        centre = n * sigmoid(linear(score.centre, read)[0])
        if score.window == "query":
            wide = n * sigmoid(linear(score.width, read)[0])
        elif score.window == "layer":
            wide = n * sigmoid(linear(score.width, np.tanh(linear(score.of_mean, k[:, part].mean(0))))[0])
        else:
            wide = 10
        term = [-((j - centre) ** 2) / (2 * (wide / 2) ** 2) for j in range(n)]
        weights[h, i] = softmax(k[:, part] @ q[i, part] / np.sqrt(size) + term)
        output[i, part] = weights[h, i] @ v[:, part]
    return linear(heads.merge, output), weights


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def embedded(embedding: Any, ids: Any) -> Array:
        table = array(embedding.weight)
        return np.sqrt(table.shape[1]) * table[ids] + sines(range(len(ids)), table.shape[1])

    source, maps = embedded(network.source_embedding, tensors["source_ids"]), {}
    for number, layer in enumerate(network.encoder):
        own = layer.attention
        found, maps[f"encoder.{number}.self"] = (
            attended(own, source, source) if network.config.window == "none" else local(own, source)
        )
        source = post_norm(layer, source, found)
    x = embedded(network.target_embedding, [network.config.begin, *tensors["target_ids"][:-1].tolist()])
    for number, layer in enumerate(network.decoder):
        found, maps[f"decoder.{number}.self"] = attended(layer.itself.attention, x, x, back=True)
        x = normed(layer.after_itself.norm, x + found)
        found, maps[f"decoder.{number}.cross"] = attended(layer.cross.attention, x, source)
        x = transition(layer, normed(layer.after_cross.norm, x + found))
    return {"scores": x @ array(network.target_embedding.weight).T, **maps}
