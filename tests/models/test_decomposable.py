"""Decomposable attention against a transcription of its paper, in NumPy, word by word."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.kit import small
from tests.oracles.cases import Array, array
from tests.oracles.zoo import linear, relu, softmax

FIRST, SECOND = small.text(5, 1)[None], small.text(3, 2)[None]


def feed_forward(layers: Any, x: Array) -> Array:
    """Two layers, each followed by relu (Parikh et al. 2016, §3: F, G and H)."""
    for layer in layers:
        x = relu(linear(layer[1], x))
    return x


def within(attention: Any, words: Array, reach: int) -> tuple[Array, Array]:
    """§3.4: f_ij = F_intra(a_i)ᵀ F_intra(a_j), and a number for the distance, the same beyond `reach`."""
    length = len(words)
    made = feed_forward(attention.score.network, words)
    f = np.zeros((length, length))
    for i in range(length):
        for j in range(length):
            away = max(-reach, min(reach, i - j))
            f[i, j] = made[i] @ made[j] + array(attention.score.distance)[away + reach]
    weights_of = softmax(f)
    return np.concatenate([words, weights_of @ words], -1), weights_of


@pytest.mark.parametrize("name", ["decomposable-attention", "decomposable-attention-within"])
def test_the_network_is_that_of_the_paper(name: str) -> None:
    model = small.make(name)
    found = model(first_ids=FIRST, first_mask=FIRST != 0, second_ids=SECOND, second_mask=SECOND != 0)
    a, b = (array(model.embedding.weight)[ids[0]] @ array(model.project.weight).T for ids in (FIRST, SECOND))
    if name.endswith("within"):
        reach = small.config(name).reach
        (a, of_a), (b, of_b) = (within(model.within, words, reach) for words in (a, b))
        assert np.allclose(found.maps["first.self"][0, 0], of_a)
        assert np.allclose(found.maps["second.self"][0, 0], of_b)
    network = model.attention.score.network
    e = feed_forward(network, a) @ feed_forward(network, b).T
    over_b, over_a = softmax(e), softmax(e.T)  # eq. 2: of each a_i over b, of each b_j over a
    assert np.allclose(found.maps["first.cross"][0, 0], over_b)
    assert np.allclose(found.maps["second.cross"][0, 0], over_a)
    v1 = feed_forward(model.compare, np.concatenate([a, over_b @ b], -1)).sum(0)  # eq. 3, 4
    v2 = feed_forward(model.compare, np.concatenate([b, over_a @ a], -1)).sum(0)  # eq. 3, 5
    hidden = feed_forward(model.classify[0], np.concatenate([v1, v2]))
    assert np.allclose(found.outputs["logits"][0], linear(model.classify[1], hidden))


def test_without_attention_within_sentences_the_order_of_words_says_nothing() -> None:
    pair = {"first_mask": FIRST != 0, "second_ids": SECOND, "second_mask": SECOND != 0}
    for name, blind in (("decomposable-attention", True), ("decomposable-attention-within", False)):
        model = small.make(name)
        said, turned = (model(first_ids=ids, **pair).outputs["logits"] for ids in (FIRST, FIRST.flip(1)))
        assert torch.allclose(said, turned) == blind
