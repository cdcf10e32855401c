"""Chen et al. (2020), §2: GPT-2's layers, a pixel at a time; norms and gelu as in the authors' code."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, rms_norm, sigmoid, softmax


def attend(heads: Any, x: Array, sees: Any) -> tuple[Array, Array]:
    """What each pixel gets of those that it sees, and weights by head."""
    q, k, v = (np.split(linear(each, x), heads.heads, -1) for each in (heads.query_map, heads.key_map, heads.value_map))
    maps, found = np.zeros((heads.heads, len(x), len(x))), []
    for head in range(heads.heads):
        for i in range(len(x)):
            seen = [j for j in range(i + 1) if sees(i, j)]
            maps[head, i, seen] = softmax(k[head][seen] @ q[head][i] / np.sqrt(q[head].shape[1]))
        found.append(maps[head] @ v[head])
    return linear(heads.merge, np.concatenate(found, -1)), maps


def written(network: Any, tensors: Tensors, layer: Any, last: Any) -> dict[str, Array]:
    """Pixels through layers. layer(block, x): features, and weights; last: what is done behind all of them."""
    prompt, target = (tensors[f"{name}_ids"] for name in ("prompt", "target"))
    ids = np.concatenate([[network.config.begin], prompt, target[:-1]]).astype(int)
    x, maps = array(network.tokens.weight)[ids] + array(network.places.weight)[: len(ids)], {}
    for number, block in enumerate(network.layers):
        x, weights = layer(block, x)
        maps[f"decoder.{number}.self"] = weights[:, len(prompt) :]
    return {"scores": last(x)[len(prompt) :] @ array(network.tokens.weight).T, **maps}


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def layer(block: Any, x: Array) -> tuple[Array, Array]:
        made, weights = attend(block.attention.attention, rms_norm(block.attention_norm, x), lambda i, j: True)
        x = x + made
        hidden = linear(block.hidden[0], rms_norm(block.hidden_norm, x))
        return x + linear(block.hidden[2], hidden * sigmoid(1.702 * hidden)), weights

    return written(network, tensors, layer, lambda x: rms_norm(network.norm, x))
