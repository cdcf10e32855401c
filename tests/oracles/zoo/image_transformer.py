"""Parmar et al. (2018), §3.1 and §3.2: a pixel at a time, over the memory of its block."""

from typing import Any

from tests.oracles.cases import Array
from tests.oracles.zoo import Tensors, layernorm, linear, relu
from tests.oracles.zoo.image_gpt import attend, written


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config = network.config

    def sees(i: int, j: int) -> bool:
        return config.whole or j >= i - i % config.size - config.before

    def layer(block: Any, x: Array) -> tuple[Array, Array]:
        made, weights = attend(block.attention.attention, x, sees)
        x = layernorm(block.attention_norm, x + made)
        hidden = linear(block.hidden[2], relu(linear(block.hidden[0], x)))
        return layernorm(block.hidden_norm, x + hidden), weights

    return written(network, tensors, layer, lambda x: x)
