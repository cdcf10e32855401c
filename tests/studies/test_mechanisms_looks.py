"""Measures and changes of weights: by hand, or for all inputs."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from limelight_models.attention import Attention
from limelight_models.attention.score import Additive, ScaledDot, Score
from research.mechanisms.looks import CHECKS, Agreement, normalised_entropy, shares
from research.mechanisms.permuted import permuted, shuffled
from research.mechanisms.start import entropy, equal_start, gain_for
from research.mechanisms.subject import Map


def whole(weights: object) -> Map:
    """Weights [batch, head, query, key(, feature)] of which every place is real."""
    array = np.array(weights, dtype=float)
    return Map(array, np.ones((len(array), 1, *array.shape[2:4]), bool))


def test_entropy_is_one_for_an_average_zero_for_one_word_and_ignores_padding() -> None:
    weights = np.array([[[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.2, 0.2, 0.6]]]])
    real = np.array([[[[True, True, False]] * 3 + [[False, False, False]]]])
    np.testing.assert_allclose(normalised_entropy(Map(weights, real)), [1, 0], atol=1e-12)


def test_entropy_takes_signed_weights_by_their_size_and_each_feature_by_itself() -> None:
    np.testing.assert_allclose(normalised_entropy(whole([[[[[-0.5, 1.0], [0.5, 0.0]]]]])), [1, 0], atol=1e-12)


def test_weights_against_gold_places_by_hand() -> None:
    """Two steps: the first has one right place, the second two; a third is not known, and padding does not count."""
    weights = np.array([[[[0.7, 0.2, 0.1, 0.0], [0.2, 0.5, 0.3, 0.0], [1.0, 0.0, 0.0, 0.0]]]])
    gold = np.array([[[True, False, False, False], [True, False, True, False], [False] * 4]])
    real = np.array([[[[True, True, True, False]] * 3]])
    found = Agreement()
    found.add(Map(weights, real), gold)
    figures = found.figures()
    assert figures["share"] == pytest.approx((0.7 + 0.5) / 2)
    assert figures["even"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert figures["hits"] == 0.5
    # Links: of the two of the map one is sure and possible, one is neither; there is one sure link.
    assert figures["aer"] == pytest.approx(1 - (1 + 1) / (2 + 1))


def test_supporting_facts_are_counted_over_all_hops() -> None:
    hops = whole([[[[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]]]])
    found = Agreement()
    found.add(hops, np.array([[[True, False, True]]]))
    found.add(hops, np.array([[[True, True, False]]]))
    assert found.figures() == {"facts": pytest.approx((1 + 0.5) / 2)}


def test_whether_an_idea_acted_by_hand() -> None:
    def acted(name: str, found: Map) -> float:
        return float(CHECKS[name](found).mean())

    assert acted("keys cut off", whole([[[[0.5, 0.5, 0.0, 0.0]]]])) == 0.5
    assert acted("steps that stop", whole([[[[0, 1, 0], [0, 0, 0]]]])) == 0.5
    assert acted("weight that subtracts", whole([[[[0.5, -0.5], [1, 0]]]])) == 0.25
    # The second step gets what the first left of the first key, the third less than is left.
    assert acted("steps at their bounds", whole([[[[0.6, 0.4], [0.4, 0.2], [0.0, 0.1]]]])) == 0.5
    assert acted("heads that differ", whole([[[[1, 0]], [[0, 1]]]])) == 0.5
    assert acted("looks that differ", whole([[[[1, 0], [1, 0]]]])) == 0
    assert acted("features that differ", whole([[[[[1, 0], [0, 1]]]]])) == 0.5


def test_padded_queries_and_keys_have_no_share() -> None:
    found = Map(np.full((1, 1, 2, 3), 0.5), np.array([[[[True, True, False], [False, False, False]]]]))
    np.testing.assert_allclose(shares(found)[0, 0], [[0.5, 0.5, 0], [0, 0, 0]])


@given(st.integers(0, 1000))
def test_shuffled_weights_stay_among_the_allowed_keys(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(3, 4, 6, generator=generator) > 0.4
    weights = torch.rand(3, 4, 6, generator=generator) * allowed
    found = shuffled(weights, allowed)
    assert (found[~allowed] == 0).all()
    torch.testing.assert_close(found.sort(-1).values, weights.sort(-1).values)


class Asks(nn.Module):
    """A model around one attention."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.attention = Attention(score=score)

    def forward(self, **tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.attention(tensors["query"], tensors["key"], None, tensors["mask"])


def batch() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    key = torch.randn(20, 1, 9, 8, generator=generator) * 0.1
    mask = torch.arange(9) < torch.arange(20).remainder(8)[:, None, None, None] + 2
    return {"query": torch.randn(20, 1, 2, 8, generator=generator) * 0.1, "key": key, "mask": mask}


@pytest.mark.parametrize("make", [ScaledDot, lambda: Additive(d_q=8, d_k=8, d_w=8)], ids=["scaled dot", "additive"])
def test_scores_of_any_size_begin_with_the_same_entropy(make: type[Score]) -> None:
    torch.manual_seed(0)
    model, given_batch = Asks(make()), batch()
    (gain,) = equal_start(model, given_batch).values()
    assert gain > 2
    _, weights = model(**given_batch)
    real = given_batch["mask"].expand_as(weights).numpy()
    assert normalised_entropy(Map(weights.detach().numpy(), real)).mean() == pytest.approx(0.9, abs=1e-3)


def test_equal_scores_are_left_as_they_are() -> None:
    scores = torch.ones(2, 1, 3, 5)
    assert gain_for([(scores, None)]) == 1
    assert entropy([(scores, None)], 7.0) == pytest.approx(1)


def test_weights_are_shuffled_only_while_it_lasts() -> None:
    model, given_batch = Asks(ScaledDot()), batch()
    before, weights = model(**given_batch)
    with permuted(model) as done:
        _, other = model(**given_batch)
    assert done and not torch.equal(other, weights)
    torch.testing.assert_close(other.sort(-1).values, weights.sort(-1).values)
    torch.testing.assert_close(model(**given_batch)[0], before)
