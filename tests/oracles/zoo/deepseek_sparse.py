"""DeepSeek-AI (2025), §2.1: eq. 1 and 2, query by query; of keys with equal scores the nearer one."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, layernorm, linear, long_layers, post_norm, relu, softmax, split


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    size = network.config

    def run(layer: Any, x: Array) -> tuple[Array, Array]:
        own, index = layer.attention, layer.attention.indexer
        q, k, v = (split(each, x, own.heads) for each in (own.query_map, own.key_map, own.value_map))
        asked, weight = (split(each, x, own.heads) for each in (index.query_map, index.weight_map))
        kept = layernorm(index.norm, linear(index.key_map, x))
        maps = np.zeros((own.heads, len(x), len(x)))
        for t in range(len(x)):
            scores = np.zeros(t + 1)
            if size.indexed:
                for j in range(own.heads):
                    scores += weight[j, t, 0] * relu(kept[: t + 1] @ asked[j, t])
            keys = sorted(range(t + 1), key=lambda s: (-float(scores[s]), t - s))[: size.most]
            for h in range(own.heads):
                maps[h, t, keys] = softmax(k[h, keys] @ q[h, t] / np.sqrt(q.shape[-1]))
        return post_norm(layer, x, linear(own.merge, np.concatenate([*(maps @ v)], -1))), maps

    return long_layers(network, tensors, run)
