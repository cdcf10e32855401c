"""Dosovitskiy et al. (2021), eq. 1 to 4: what is served is the student, a small Vision Transformer."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, gelu, layernorm, linear, patches, softmax


def attend(layer: Any, x: Array) -> tuple[Array, list[Array]]:
    """The output; weights, scores and norms (Kobayashi et al. 2020, eq. 4), each [head, …]."""
    parts = [linear(each, x) for each in (layer.query_map, layer.key_map, layer.value_map)]
    parts.append(array(layer.merge.weight))
    made, found = array(layer.merge.bias), []
    for q, k, v, w in zip(*(np.split(each, layer.heads, -1) for each in parts), strict=True):
        scores = q @ k.T / np.sqrt(q.shape[1])
        weights, vectors = softmax(scores), v @ w.T
        made = made + weights @ vectors
        found.append((weights, scores, weights * np.linalg.norm(vectors, axis=1)))
    return made, [np.array(each) for each in zip(*found, strict=True)]


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    network, maps = network.student, {}
    encoder = network.encoder
    x = linear(encoder.project, patches(tensors["pixels"], encoder.patch))
    x = np.concatenate([array(encoder.leading)[0], x]) + array(encoder.position)[0]
    for number, layer in enumerate(encoder.layers):
        made, (weights, scores, norms) = attend(layer.attention, layernorm(layer.attention_norm, x))
        name = f"encoder.{number}.self"
        maps |= {name: weights, f"{name}:scores": scores, f"{name}:norms": norms}
        x = x + made
        x = x + linear(layer.hidden[2], gelu(linear(layer.hidden[0], layernorm(layer.hidden_norm, x))))
    return {"logits": linear(network.classify, layernorm(encoder.norm, x[:1]))[0], **maps}
