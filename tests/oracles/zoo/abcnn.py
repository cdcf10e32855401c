"""Yin et al. (2016), §3 and 4: convolutions with the matrix in the input, in pooling, in both, or in neither."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, relu


def near(first: Array, second: Array) -> Array:
    """A_ij = 1 / (1 + |x_i - y_j|)."""
    return np.array([[1 / (1 + np.sqrt(((x - y) ** 2).sum())) for y in second] for x in first])


def convolved(layer: Any, x: Array, width: int) -> Array:
    """Windows of words up to each, from the first alone to the last alone: s + w - 1 columns."""
    w, b = array(layer.weight), array(layer.bias)  # [d, d_in, w]
    zeros = np.zeros((width - 1, x.shape[1]))
    padded = np.concatenate([zeros, x, zeros])
    return np.array([np.tanh((w * padded[i : i + width].T).sum((1, 2)) + b) for i in range(len(x) + width - 1)])


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    width, maps = network.config.width, {}
    x_0, x_1 = (array(network.words.weight)[tensors[f"{side}_ids"]] for side in ("first", "second"))
    levels = [(x_0, x_1)]
    for number, block in enumerate(network.blocks):
        n_0, n_1 = len(x_0), len(x_1)
        if network.config.of_input:
            a = near(x_0, x_1)
            maps[f"input.{number}.co"] = a[None]
            w_1, w_0 = (array(each)[:n].T for each, n in zip(block.beside, (n_0, n_1), strict=True))
            x_0, x_1 = np.concatenate([x_0, (w_0 @ a.T).T], 1), np.concatenate([x_1, (w_1 @ a).T], 1)
        p_0, p_1 = convolved(block.convolution, x_0, width), convolved(block.convolution, x_1, width)
        a_0, a_1 = np.full(len(p_0), 1 / width), np.full(len(p_1), 1 / width)
        if network.config.of_pooling:
            a, off = near(p_0, p_1), width // 2
            a_0, a_1 = a.sum(1), a.sum(0)
            maps[f"pooling.{number}.co"] = a[None, off : off + n_0, off : off + n_1]
        x_0, x_1 = (
            np.array([sum(a[k] * p[k] for k in range(j, j + width)) for j in range(n)])
            for a, p, n in ((a_0, p_0, n_0), (a_1, p_1, n_1))
        )
        levels.append((x_0, x_1))
    r_0, r_1 = (np.concatenate([level[side].mean(0) for level in levels]) for side in (0, 1))
    hidden = linear(network.compare[0], np.concatenate([r_0, r_1, r_0 - r_1, r_0 * r_1]))
    return {"logits": linear(network.compare[3], relu(hidden)), **maps}
