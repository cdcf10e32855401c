"""Sukhbaatar et al. (2015), §2 and §4.1, with the adjacent tying of §2.2."""

from itertools import pairwise
from typing import Any

import numpy as np

from tests.oracles.cases import Array, array
from tests.oracles.zoo import Tensors, softmax


def sentence(table: Array, ids: Array) -> Array:
    """Σ_j l_j ⊙ A x_j, place by place."""
    words, d = [each for each in ids if each], table.shape[1]
    total = np.zeros(d)
    for j, word in enumerate(words, 1):
        for k in range(1, d + 1):
            place = (1 - j / len(words)) - (k / d) * (1 - 2 * j / len(words))
            total[k - 1] += place * table[word, k - 1]
    return total


def answer(network: Any, tensors: Tensors) -> dict[str, Array]:
    facts = tensors["token_ids"]
    tables = [(array(each.words.weight), array(each.ages.weight)) for each in (*network.asking, network.last)]
    u = sentence(tables[0][0], tensors["question_ids"])
    rows = []
    for (a, t_a), (c, t_c) in pairwise(tables):
        ages = range(len(facts) - 1, -1, -1)
        m = [sentence(a, fact) + t_a[age] for fact, age in zip(facts, ages, strict=True)]
        p = softmax(np.array([u @ each for each in m]))
        u = u + sum(w * (sentence(c, fact) + t_c[age]) for w, fact, age in zip(p, facts, ages, strict=True))
        rows.append(p)
    return {"logits": array(network.answer.weight) @ u, "hops": np.stack(rows)[None]}
