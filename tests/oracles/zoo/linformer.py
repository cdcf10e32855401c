"""Wang et al. (2020), eq. 7: head = softmax(Q (E K)ᵀ / √d) F V, E and F cut to the text; shared, F is E."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, long_encoder, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    def attend(attention: Any, q: Array, k: Array, v: Array) -> Array:
        n, d = q.shape[1:]
        e = array(attention.project_keys)[:, :n]
        f = e if network.config.shared else array(attention.project_values)[:, :n]
        return np.stack([softmax(q_h @ (e @ k_h).T / np.sqrt(d)) @ f for q_h, k_h in zip(q, k, strict=True)])

    return long_encoder(network, tensors, attend)
