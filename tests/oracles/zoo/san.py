"""Yang et al. (2016), §3. The features f_I are of this project's own convolutions, as the paper has VGGNet's."""

from typing import Any

import numpy as np
import torch
from torch.nn.functional import conv2d

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, layernorm, linear, lstm, relu, softmax


def convolved(layers: Any, cells: Array, stride: int = 1) -> Array:
    """PyTorch's filters over cells [row, column, feature] with zeros around them; norm of each cell; relu."""
    weight = layers[0].weight.detach()
    made = conv2d(torch.from_numpy(cells).movedim(-1, 0)[None], weight, None, stride, weight.shape[-1] // 2)
    return relu(layernorm(layers[1].norm, made[0].movedim(0, -1).numpy()))


def features(regions: Any, pixels: Array, strides: list[int]) -> Array:
    """What each cell shows: its contrast, convolved; its place; and then what is around it."""
    away = abs(pixels - pixels.mean())
    cells = (away / np.sqrt((away**2).mean() + 1e-3)).transpose(1, 2, 0)
    for layers, stride in zip(regions.cells.layers, [*strides, 1], strict=True):
        cells = convolved(layers, cells, stride)
    down, across = (np.linspace(-1, 1, count) for count in cells.shape[:2])
    places = np.array([[[x, y] for x in across] for y in down])
    cells = linear(regions.project, np.concatenate([cells, places], -1))
    for around in regions.around:
        cells = cells + convolved(around.neighbours, cells)
    return cells.reshape(-1, cells.shape[-1])


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    f = features(network.regions, tensors["pixels"], network.config.strides)
    v = np.tanh(linear(network.look, f))
    u = lstm(network.reader.cell, array(network.words.embedding.weight)[tensors["question_ids"]])[-1]
    found = {}
    for k, hop in enumerate(network.hops):
        score = hop.score
        w_i, w_q, w_p = (array(each.weight)[0] for each in (score.key_map, score.query_map, score.importance))
        b_a = array(score.query_map.bias).reshape(-1)
        p = softmax(np.array([float(np.tanh(region @ w_i + u @ w_q + b_a) @ w_p[:, 0]) for region in v]))
        u = sum(weight * region for weight, region in zip(p, v, strict=True)) + u
        found[f"hop.{k}"] = p[None, None]
    return {"logits": linear(network.classify, u), **found}
