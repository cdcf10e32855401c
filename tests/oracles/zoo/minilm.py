"""Dosovitskiy et al. (2021), eq. 1 to 4, with what Wang et al. (2020), §3, compare of two encoders."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, gelu, layernorm, linear, patches, softmax


def attend(layer: Any, x: Array) -> tuple[Array, list[Array]]:
    """The output; weights, scores, norms (Kobayashi et al. 2020, eq. 4) and value relations, each [head, …]."""
    parts = [linear(each, x) for each in (layer.query_map, layer.key_map, layer.value_map)]
    parts.append(array(layer.merge.weight))
    made, found = array(layer.merge.bias), []
    for q, k, v, w in zip(*(np.split(each, layer.heads, -1) for each in parts), strict=True):
        scores, root = q @ k.T / np.sqrt(q.shape[1]), np.sqrt(v.shape[1])
        weights, vectors = softmax(scores), v @ w.T
        made = made + weights @ vectors
        found.append((weights, scores, weights * np.linalg.norm(vectors, axis=1), softmax(v @ v.T / root)))
    return made, [np.array(each) for each in zip(*found, strict=True)]


def encode(network: Any, pixels: Array) -> tuple[dict[str, Array], Array, Array]:
    """Scores of classes and every map; weights and value relations of the last layer."""
    encoder, maps = network.encoder, {}
    x = linear(encoder.project, patches(pixels, encoder.patch))
    x = np.concatenate([array(encoder.leading)[0], x]) + array(encoder.position)[0]
    for number, layer in enumerate(encoder.layers):
        made, (weights, scores, norms, relations) = attend(layer.attention, layernorm(layer.attention_norm, x))
        name = f"encoder.{number}.self"
        maps |= {name: weights, f"{name}:scores": scores, f"{name}:norms": norms}
        x = x + made
        x = x + linear(layer.hidden[2], gelu(linear(layer.hidden[0], layernorm(layer.hidden_norm, x))))
    logits = linear(network.classify, layernorm(encoder.norm, x[:1]))[0]
    return {"logits": logits, **maps}, weights, relations


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    return encode(network.student, tensors["pixels"])[0]


def apart(network: Any, pixels: Array) -> float:
    """L_AT + L_VR of one picture."""
    (_, *found), (_, *wanted) = encode(network.student, pixels), encode(network.teacher, pixels)
    return sum(float((t * np.log(t / s)).sum(-1).mean()) for t, s in zip(wanted, found, strict=True))
