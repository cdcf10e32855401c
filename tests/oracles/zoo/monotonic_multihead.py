"""Ma et al. (2020), §3: the Transformer, each of whose heads over the source stops at one token, and only moves on."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, layernorm, linear, post_norm, relu, sigmoid, sines, softmax, split


def looking_back(layer: Any, x: Array) -> tuple[Array, Array]:
    """Scaled dot products of each place with itself and those before it: the output, and weights."""
    q, k, v = (split(each, x, layer.heads) for each in (layer.query_map, layer.key_map, layer.value_map))
    maps = []
    for q_h, k_h in zip(q, k, strict=True):
        scores = q_h @ k_h.T / np.sqrt(q_h.shape[1])
        maps.append(
            np.array([np.append(softmax(row[: i + 1]), np.zeros(len(x) - i - 1)) for i, row in enumerate(scores)])
        )
    return linear(layer.merge, np.concatenate([a @ v_h for a, v_h in zip(maps, v, strict=True)], -1)), np.array(maps)


def stops(layer: Any, x: Array, h: Array) -> tuple[Array, Array]:
    """Algorithm 1 for every head: from where it was, the first token with p > 1/2, or the last of all."""
    q = split(layer.query_map, x, layer.heads)
    k, v = (split(each, h, layer.heads) for each in (layer.key_map, layer.value_map))
    r = array(layer.attention.align.offset).ravel()
    maps, found = np.zeros((layer.heads, len(x), len(h))), []
    for head in range(layer.heads):
        place, rows = 0, []
        for i, query in enumerate(q[head]):
            p = sigmoid(k[head] @ query / np.sqrt(len(query)) + r[head])
            while place < len(h) - 1 and p[place] <= 0.5:
                place += 1
            maps[head, i, place] = 1
            rows.append(v[head][place])
        found.append(np.array(rows))
    return linear(layer.merge, np.concatenate(found, -1)), maps


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config = network.config

    def embed(embedding: Any, tokens: Any) -> Array:
        return np.sqrt(config.d_model) * array(embedding.weight)[tokens] + sines(range(len(tokens)), config.d_model)

    found: dict[str, Array] = {}
    h = embed(network.source_embedding, tensors["source_ids"])
    h[-1] += array(network.final)
    for number, layer in enumerate(network.encoder):
        attended, found[f"encoder.{number}.self"] = looking_back(layer.attention.attention, h)
        h = post_norm(layer, h, attended)
    x = embed(network.target_embedding, [config.begin, *tensors["target_ids"][:-1]])
    for number, layer in enumerate(network.decoder):
        attended, found[f"decoder.{number}.self"] = looking_back(layer.itself.attention, x)
        x = layernorm(layer.after_itself.norm, x + attended)
        attended, found[f"decoder.{number}.cross"] = stops(layer.cross.attention, x, h)
        x = layernorm(layer.after_cross.norm, x + attended)
        x = layernorm(layer.after_hidden.norm, x + linear(layer.hidden[2], relu(linear(layer.hidden[0], x))))
    return {**found, "scores": x @ array(network.target_embedding.weight).T}
