"""Dos Santos et al. (2016), §4; without attention the largest of each feature (its "largest" control)."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, linear, relu, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    words = (array(network.embedding.weight)[tensors[f"{side}_ids"]] for side in ("first", "second"))
    q, a = (both_ways(network.encoder, each).T for each in words)  # states as columns
    if network.pool is None:
        maps, (r_q, r_a) = {}, (q.max(1), a.max(1))
    else:
        g = np.tanh(q.T @ array(network.pool.attention.score.query_map.weight)[0] @ a)
        of_q, of_a = softmax(g.max(1)), softmax(g.max(0))
        r_q, r_a = q @ of_q, a @ of_a
        maps = {"first": of_q[None, None], "second": of_a[None, None], "affinity": g[None]}
    hidden = linear(network.compare[0], np.concatenate([r_q, r_a, r_q - r_a, r_q * r_a]))
    return {"logits": linear(network.compare[3], relu(hidden)), **maps}
