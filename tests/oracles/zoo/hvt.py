"""Pan et al. (2021), eq. 4 to 7: each pooled token is the maximum of those around every second one."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, layernorm, linear, patches, pre_norm


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    config, maps = network.config, {}
    z, near = linear(network.project, patches(tensors["pixels"], config.patch)), config.kernel // 2
    for number, stage in enumerate(network.stages):
        if number and config.pooled:
            centres = range(0, len(z), config.stride)
            z = np.array([z[max(each - near, 0) : each + near + 1].max(0) for each in centres])
        z = z + array(stage.position)[0]
        for place, layer in enumerate(stage.layers, number * config.layers):
            z, found = pre_norm(layer, z, f"encoder.{place}.self")
            maps |= found
    return {"logits": linear(network.classify, layernorm(network.norm, z).mean(0)), **maps}
