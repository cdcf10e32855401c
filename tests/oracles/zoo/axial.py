"""Wang et al. (2020), eq. 4: pixel by pixel, along its column and along its row."""

from functools import partial
from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, softmax, split
from tests.oracles.zoo.stand_alone import network_of


def along(heads: Any, x: Array, grid: tuple[int, int], *, down: bool) -> tuple[Array, Array]:
    """What heads give of pixels, and their weights."""
    (rows, columns), line = grid, heads.attention
    middle = (rows if down else columns) - 1
    q, k, v = (split(each, x, heads.heads) for each in (heads.query_map, heads.key_map, heads.value_map))
    maps, found = np.zeros((len(q), len(x), len(x))), np.zeros_like(q)
    for h, i, j in np.ndindex(len(q), rows, columns):
        o, place = i * columns + j, i if down else j
        keys = [p * columns + j for p in range(rows)] if down else [i * columns + p for p in range(columns)]
        values = v[h, keys]
        scores = k[h, keys] @ q[h, o]
        if heads.offsets is not None:
            far = [p - place + middle for p in range(len(keys))]
            of_query, of_key = (array(each)[far] for each in line.offsets)
            scores = scores + of_query @ q[h, o] + (of_key * k[h, keys]).sum(-1)
            values = values + array(heads.offsets)[far]
        maps[h, o, keys] = softmax(scores)
        found[h, o] = maps[h, o, keys] @ values
    return linear(heads.merge, np.concatenate([*found], -1)), maps


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    return network_of(network, tensors, {"height": partial(along, down=True), "width": partial(along, down=False)})
