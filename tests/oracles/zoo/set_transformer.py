"""Lee et al. (2019): eq. 6–7 (MAB), 8 (SAB), 9–10 (ISAB), 11 (pooling)."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, layernorm, linear, multi_head, relu


def mab(layer: Any, x: Array, y: Array) -> tuple[Array, Array]:
    """norm(H + rFF(H)), H = norm(X + Multihead(X, Y, Y)), and the weights."""
    made, weights = multi_head(layer.attention, x, y)
    h = layernorm(layer.after_attention.norm, x + made)
    return layernorm(layer.after_hidden.norm, h + row_wise(layer.hidden, h)), weights


def row_wise(network: Any, x: Array) -> Array:
    return linear(network[2], relu(linear(network[0], x)))


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    x, maps = array(network.embedding.weight)[tensors["token_ids"]], {}
    for number, layer in enumerate(network.layers):
        if network.config.whole:
            x, maps[f"encoder.{number}.self"] = mab(layer, x, x)
        else:
            h, maps[f"encoder.{number}.inward"] = mab(layer.inward, array(layer.points.query)[0], x)
            x, maps[f"encoder.{number}.outward"] = mab(layer.outward, x, h)
    if network.config.mean:
        return {"logits": linear(network.classify, np.mean(x, 0)), **maps}
    pooled, maps["pool"] = mab(network.pool, array(network.seed.query)[0], row_wise(network.row_wise, x))
    return {"logits": linear(network.classify, pooled[0]), **maps}
