"""Lin et al. (2025), §3: eq. 5 to 7, the bias of a pair as a sum of its own."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, long_encoder, sigmoid, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        scores = np.full((len(q), q.shape[1], q.shape[1]), -np.inf)
        for h, i in np.ndindex(scores.shape[:2]):
            for j in range(i + 1):
                scores[h, i, j] = q[h, i] @ k[h, j, :-1] / np.sqrt(q.shape[-1])
                if network.config.gated:
                    scores[h, i, j] += np.log(sigmoid(k[h, j + 1 : i + 1, -1])).sum()
        return softmax(scores)

    return long_encoder(network, tensors, attend)
