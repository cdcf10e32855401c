"""Ma et al. (2021), §3: the pack, the unpack, and a layer; the encoder around them is that of `long_encoder`."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, layernorm, linear, relu, sines, softmax


def attend(layer: Any, x: Array, c: Array) -> tuple[Array, Array]:
    """Heads side by side, and the weights."""
    q, k, v = linear(layer.query_map, x), linear(layer.key_map, c), linear(layer.value_map, c)
    parts = [np.split(each, layer.heads, -1) for each in (q, k, v)]
    maps = [softmax(q_h @ k_h.T / np.sqrt(q_h.shape[1])) for q_h, k_h, _ in zip(*parts, strict=True)]
    return np.concatenate([a @ v_h for a, v_h in zip(maps, parts[2], strict=True)], -1), np.array(maps)


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    tokens = array(network.embedding.weight)[tensors["token_ids"]]
    x = tokens + linear(network.before, np.concatenate([np.zeros_like(tokens[:1]), tokens[:-1]]))
    x, p, maps = x + sines(range(len(x)), x.shape[1]), array(network.second.query)[0], {}
    for number, layer in enumerate(network.layers):
        y_p, maps[f"encoder.{number}.pack"] = attend(layer.pack, p, x)
        y_x, maps[f"encoder.{number}.unpack"] = attend(layer.unpack, x, y_p)
        p = layernorm(layer.after_pack.norm, y_p + p)
        x = layernorm(layer.after_unpack.norm, linear(layer.unpack.merge, y_x) + x)
        x = layernorm(layer.after_hidden.norm, linear(layer.hidden[2], relu(linear(layer.hidden[0], x))) + x)
    return {"logits": linear(network.classify, x[-1]), **maps}
