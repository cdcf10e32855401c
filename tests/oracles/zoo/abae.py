"""He, Lee, Ng & Dahlmeier (2017), eq. 1 to 6, of one text."""

from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, linear, softmax


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    words = [array(network.words.weight)[number] for number in tensors["token_ids"]]
    y = sum(words) / len(words)  # eq. 4
    m = array(network.attention.score.query_map.weight)[0]
    a = softmax(np.array([y @ m @ e for e in words]))  # eq. 2, 3
    z = sum(share * e for share, e in zip(a, words, strict=True))  # eq. 1
    logits = linear(network.share, z)
    r = array(network.aspects).T @ softmax(logits)  # eq. 5, 6
    return {"logits": logits, "pool": a[None, None], "signal.rebuilt": r, "signal.found": z, "signal.average": y}
