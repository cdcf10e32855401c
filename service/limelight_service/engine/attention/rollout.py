"""Attention followed through the layers."""

from collections.abc import Sequence

import numpy as np

from limelight_service.engine.attention.heads import Floats


def rollout(layers: Sequence[Floats]) -> Floats:
    """Follow attention through the layers to the input (Abnar and Zuidema 2020).

    R_l = normalise(0.5 · mean over heads of A_l + 0.5 · I) · R_{l-1}, R_0 = I; `normalise` divides each row by its sum.

    Shapes: each of `layers` [head, n, n], first layer first -> [1, n, n]. Rows sum to 1. The weights are not negative.
    Time: layers × n³.
    """
    size = layers[0].shape[-1]
    identity = np.eye(size, dtype=np.float32)
    result = identity
    for weights in layers:
        mixed = 0.5 * weights.mean(axis=0) + 0.5 * identity
        mixed /= mixed.sum(axis=-1, keepdims=True)
        result = mixed @ result
    return result[np.newaxis]
