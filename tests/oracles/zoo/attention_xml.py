"""You et al. (2019), §3.3: attention of each label, first of clusters, then of labels."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, both_ways, linear, relu, sigmoid, softmax


def level(part: Any, h: Array) -> tuple[Array, Array]:
    """Probabilities of labels, and the weights of each [label, token]."""
    weights = np.array([softmax(h @ query) for query in array(part.attention.query.query).reshape(-1, h.shape[1])])
    shared = relu(linear(part.shared[0], weights @ h))
    if part.put_out is not None:
        return sigmoid(linear(part.put_out, shared)[:, 0]), weights
    w, b = array(part.apart.map.weight)[:, :, 0], array(part.apart.map.bias).reshape(-1)
    return sigmoid((w * shared).sum(1) + b), np.repeat(weights, len(w), 0)


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    h = both_ways(network.encoder, array(network.embedding.weight)[tensors["token_ids"]])
    (above, clusters), (own, labels) = level(network.clusters, h), level(network.labels, h)
    p = np.array([above[parent] * each for parent, each in zip(network.config.parents, own, strict=True)])
    return {"logits": np.log(p / (1 - p)), "clusters": clusters[None], "labels": labels[None]}
