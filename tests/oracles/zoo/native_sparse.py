"""Yuan et al. (2025), §3: eq. 5, and 7 to 12 with blocks that do not overlap; query by query, block by block."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder, sigmoid, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    size = network.config

    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        (heads, count, d), block = q.shape, size.block
        if not size.most:
            away = np.subtract.outer(np.arange(count), np.arange(count))
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(d)
            return softmax(np.where((away < 0) | (away >= size.window), -np.inf, scores))
        gates, k = sigmoid(k[..., d:]), k[..., :d]
        by_key, by_value = (softmax(array(each)) for each in (attention.key_places, attention.value_places))
        weights = np.zeros((heads, count, count))

        def add(h: int, t: int, branch: int, keys: list[int]) -> None:
            weights[h, t, keys] += gates[h, t, branch] * softmax(k[h, keys] @ q[h, t] / np.sqrt(d))

        for t in range(count):
            ended, importance = (t + 1) // block, np.zeros(t // block + 1)
            for h in range(heads):
                brief = [by_key[h] @ k[h, b * block : (b + 1) * block] for b in range(ended)]
                if not brief:
                    continue
                shares = softmax(np.array(brief) @ q[h, t] / np.sqrt(d))
                importance[:ended] += shares
                for b, share in enumerate(shares):
                    weights[h, t, b * block : (b + 1) * block] += gates[h, t, 0] * share * by_value[h]
            near, rest = [t // block, t // block - 1, 0], np.argsort(-importance, kind="stable").tolist()
            blocks = list(dict.fromkeys(b for b in (*near, *rest) if b >= 0))[: size.most]
            read = [j for j in range(t + 1) if j // block in blocks]
            for h in range(heads):
                add(h, t, 1, read)
                add(h, t, 2, [*range(max(0, t - size.window + 1), t + 1)])
        return weights

    return long_encoder(network, tensors, attend)
