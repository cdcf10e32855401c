"""Katharopoulos et al. (2020), §3.4: eq. 16 to 20 token by token, with φ(x) = elu(x) + 1; GPT-2's layers."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, gelu, layernorm, linear, split


def attend(own: Any, x: Array) -> tuple[Array, Array]:
    """What a layer's attention gives of rows x, and what each row takes of each before it [head, token, token]."""
    q, k, v = (split(each, x, own.heads) for each in (own.query_map, own.key_map, own.value_map))
    q, k = (np.where(each > 0, each + 1, np.exp(np.minimum(each, 0))) for each in (q, k))
    found, maps = np.zeros_like(v), np.zeros((own.heads, len(x), len(x)))
    for h in range(own.heads):
        s, z = np.zeros((k.shape[-1], v.shape[-1])), np.zeros(k.shape[-1])
        for i in range(len(x)):
            s, z = s + np.outer(k[h, i], v[h, i]), z + k[h, i]
            found[h, i] = q[h, i] @ s / (q[h, i] @ z)
            maps[h, i, : i + 1] = k[h, : i + 1] @ q[h, i] / (q[h, i] @ z)
    return linear(own.merge, np.concatenate([*found], -1)), maps


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    prompt, target = tensors["prompt_ids"], tensors["target_ids"]
    embedded, count = array(network.tokens.weight), len(prompt)
    put_in = [*prompt, network.config.begin, *target[:-1]]
    x, maps = embedded[put_in] + array(network.places.weight)[: len(put_in)], {}
    for number, layer in enumerate(network.layers):
        attended, weights = attend(layer.attention.attention, layernorm(layer.attention_norm, x))
        x = x + attended
        x = x + linear(layer.hidden[2], gelu(linear(layer.hidden[0], layernorm(layer.hidden_norm, x))))
        maps[f"prompt.{number}.self"] = weights[:, :count, :count]
        maps[f"decoder.{number}.prompt"] = weights[:, count:, :count]
    return {"scores": layernorm(network.norm, x[count:]) @ embedded.T, **maps}
