"""Dosovitskiy et al. (2021), eq. 1 to 4: what is served is the student, a small Vision Transformer."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, layernorm, linear, patches, pre_norm


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    network, maps = network.student, {}
    encoder = network.encoder
    x = linear(encoder.project, patches(tensors["pixels"], encoder.patch))
    x = np.concatenate([array(encoder.leading)[0], x]) + array(encoder.position)[0]
    for number, layer in enumerate(encoder.layers):
        x, found = pre_norm(layer, x, f"encoder.{number}.self")
        maps |= found
    return {"logits": linear(network.classify, layernorm(encoder.norm, x[:1]))[0], **maps}
