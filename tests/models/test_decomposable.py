"""Decomposable attention against a transcription of its paper, in NumPy, word by word."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from tests.models import small
from tests.models.transcribed import Array, dense, softmax

FIRST, SECOND = small.text(5, 1)[None], small.text(3, 2)[None]


def feed_forward(x: Array, weights: Mapping[str, Array], name: str) -> Array:
    """Two layers, each followed by relu (Parikh et al. 2016, §3: F, G and H)."""
    for layer in range(2):
        x = np.maximum(dense(x, weights, f"{name}.{layer}.1"), 0)
    return x


def within(words: Array, weights: Mapping[str, Array], reach: int) -> tuple[Array, Array]:
    """§3.4: f_ij = F_intra(a_i)ᵀ F_intra(a_j), and a number for the distance, the same beyond `reach`."""
    length = len(words)
    made = feed_forward(words, weights, "within.score.network")
    f = np.zeros((length, length))
    for i in range(length):
        for j in range(length):
            away = max(-reach, min(reach, i - j))
            f[i, j] = made[i] @ made[j] + weights["within.score.distance"][away + reach]
    weights_of = softmax(f)
    return np.concatenate([words, weights_of @ words], -1), weights_of


@pytest.mark.parametrize("name", ["decomposable-attention", "decomposable-attention-within"])
def test_the_network_is_that_of_the_paper(name: str) -> None:
    model = small.make(name)
    found = model(first_ids=FIRST, first_mask=FIRST != 0, second_ids=SECOND, second_mask=SECOND != 0)
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    a, b = (weights["embedding.weight"][ids[0]] @ weights["project.weight"].T for ids in (FIRST, SECOND))
    if name.endswith("within"):
        reach = small.config(name).reach
        (a, of_a), (b, of_b) = (within(words, weights, reach) for words in (a, b))
        assert np.allclose(found.maps["first.self"][0, 0], of_a)
        assert np.allclose(found.maps["second.self"][0, 0], of_b)
    e = feed_forward(a, weights, "attention.score.network") @ feed_forward(b, weights, "attention.score.network").T
    over_b, over_a = softmax(e), softmax(e.T)  # eq. 2: of each a_i over b, of each b_j over a
    assert np.allclose(found.maps["first.cross"][0, 0], over_b)
    assert np.allclose(found.maps["second.cross"][0, 0], over_a)
    v1 = feed_forward(np.concatenate([a, over_b @ b], -1), weights, "compare").sum(0)  # eq. 3, 4
    v2 = feed_forward(np.concatenate([b, over_a @ a], -1), weights, "compare").sum(0)  # eq. 3, 5
    hidden = feed_forward(np.concatenate([v1, v2]), weights, "classify.0")
    assert np.allclose(found.outputs["logits"][0], dense(hidden, weights, "classify.1"))


def test_without_attention_within_sentences_the_order_of_words_says_nothing() -> None:
    pair = {"first_mask": FIRST != 0, "second_ids": SECOND, "second_mask": SECOND != 0}
    for name, blind in (("decomposable-attention", True), ("decomposable-attention-within", False)):
        model = small.make(name)
        said, turned = (model(first_ids=ids, **pair).outputs["logits"] for ids in (FIRST, FIRST.flip(1)))
        assert torch.allclose(said, turned) == blind
