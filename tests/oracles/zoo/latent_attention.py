"""DeepSeek-AI (2024), §2.1, eq. 9 to 19 without short queries: rotary features as complex numbers; GPT-2's layers."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, gelu, layernorm, linear, rms_norm, softmax


def turn(x: Array, place: int) -> Array:
    """Features f and f + d/2 as one complex number, turned by place / 10000^(2f/d)."""
    half = len(x) // 2
    made = (x[:half] + 1j * x[half:]) * np.exp(1j * place / 10_000 ** (np.arange(half) / half))
    return np.concatenate([made.real, made.imag])


def attend(own: Any, size: Any, x: Array) -> tuple[Array, Array]:
    """What a layer's attention gives of rows x, and its weights [head, token, token]."""
    c = rms_norm(own.down[1], linear(own.down[0], x)) if size.d_latent else x
    shared = [turn(row, place) for place, row in enumerate(linear(own.turned_map, x))]
    queries, keys, values = (
        np.split(linear(each, rows), size.heads, -1)
        for each, rows in ((own.query_map, x), (own.key_map, c), (own.value_map, c))
    )
    maps, found = np.zeros((size.heads, len(x), len(x))), []
    for h, (q, k, v) in enumerate(zip(queries, keys, values, strict=True)):
        for t in range(len(x)):
            turned = turn(q[t, size.d_head :], t)
            scores = [q[t, : size.d_head] @ k[s] + turned @ shared[s] for s in range(t + 1)]
            maps[h, t, : t + 1] = softmax(np.array(scores) / np.sqrt(size.d_head + size.d_turned))
        found.append(maps[h] @ v)
    return linear(own.merge, np.concatenate(found, -1)), maps


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    prompt, target = tensors["prompt_ids"], tensors["target_ids"]
    embedded = array(network.tokens.weight)
    x, maps = embedded[[network.config.begin, *prompt, *target[:-1]]], {}
    for number, layer in enumerate(network.layers):
        attended, weights = attend(layer.attention.attention, network.config, layernorm(layer.attention_norm, x))
        x = x + attended
        x = x + linear(layer.hidden[2], gelu(linear(layer.hidden[0], layernorm(layer.hidden_norm, x))))
        maps[f"decoder.{number}.self"] = weights[:, len(prompt) :]
    return {"scores": layernorm(network.norm, x[len(prompt) :]) @ embedded.T, **maps}
