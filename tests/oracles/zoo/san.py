"""Yang et al. (2016), §3. The features f_I are those of the network's convolutions, as the paper has VGGNet's."""

from typing import Any

import numpy as np
import torch

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, lstm, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    f = array(network.regions(torch.from_numpy(tensors["pixels"])[None]))[0]
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
