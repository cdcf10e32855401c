"""The arithmetic of evaluations: by hand, and beside other implementations."""

import math
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from limelight.evaluation.flow import flow, rollout
from limelight.evaluation.measures.entropy import map_entropy
from limelight.evaluation.measures.erasure import word_weights, words_of
from limelight.evaluation.measures.heads import pruned_counts
from limelight.evaluation.measures.measure import key_weights, log_lost, moved, probability_of
from limelight.evaluation.measures.quality import _of_texts, edits, macro_f1, token_f1
from limelight.evaluation.measures.texts import meteor
from limelight.evaluation.replies import Reply
from limelight.evaluation.rows import Box, Span, covered, word_spans
from limelight.evaluation.samples import Samples
from limelight.evaluation.statistics import average_precision, interval, mean_interval, rank_correlation
from limelight.evaluation.weights import jensen_shannon, normalised_entropy, permuted, reversed_order, total_variation
from limelight.labels import Grid, LabelSet, Region
from limelight.maps import AttentionMap
from limelight.v1 import values_pb2

numbers = st.lists(st.integers(0, 5), min_size=2, max_size=20)


def test_rank_correlation_by_hand():
    assert rank_correlation([3, 1, 3, 2], [3.5, 1, 3.5, 2]) == pytest.approx(1), "equal values share a rank"
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert math.isnan(rank_correlation([1, 1], [1, 2])) and math.isnan(rank_correlation([], []))


@settings(max_examples=50)
@given(numbers, st.randoms(use_true_random=False))
def test_rank_correlation_is_that_of_scipy_and_precision_that_of_every_threshold(first: list[int], chance: Random):
    second = [chance.randint(0, 3) for _ in first]
    if len(set(first)) > 1 and len(set(second)) > 1:
        assert rank_correlation(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)
    marks = [value > 1 for value in second]
    if any(marks):
        area, before = 0.0, 0.0
        for threshold in sorted(set(first), reverse=True):
            kept = [mark for value, mark in zip(first, marks, strict=True) if value >= threshold]
            recall = sum(kept) / sum(marks)
            area, before = area + (recall - before) * sum(kept) / len(kept), recall
        assert average_precision(first, marks) == pytest.approx(area)


def test_scores_that_rank_the_marks_first_have_the_area_1_and_constant_ones_the_share_of_marks():
    assert average_precision([0.9, 0.8, 0.1], [True, True, False]) == 1
    assert average_precision([1, 1, 1, 1], [True, False, False, False]) == 0.25
    assert math.isnan(average_precision([1, 2], [False, False]))


def test_the_interval_of_a_mean_is_about_two_standard_errors_wide_on_each_side():
    values = np.random.default_rng(0).normal(size=400)
    low, high = interval(400, lambda at: float(values[at].mean()))
    assert (high - low) / 2 == pytest.approx(1.96 * values.std() / 20, rel=0.15)
    np.testing.assert_allclose(mean_interval(values), (low, high), atol=0.02)
    assert np.isnan(interval(1, lambda at: 1.0)).all() and np.isnan(mean_interval(values[:1])).all()
    assert interval(5, lambda at: 2.0).tolist() == [2, 2]


def test_entropy_is_a_part_of_that_of_equal_weights():
    weights, everywhere = np.array([[0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.25] * 4, [0] * 4]), np.ones((4, 4), bool)
    np.testing.assert_allclose(normalised_entropy(weights, everywhere), [0.5, 0, 1, np.nan])
    two = np.array([[True, True, False, False]])
    np.testing.assert_allclose(normalised_entropy(weights[:1], two), [1])


def test_distances_of_distributions():
    assert total_variation(np.array([1.0, 0]), np.array([0.25, 0.75])) == 0.75
    assert jensen_shannon(np.array([1.0, 0]), np.array([0.0, 1])) == pytest.approx(1)
    assert jensen_shannon(np.array([0.5, 0.5]), np.array([0.5, 0.5])) == 0


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1, width=32), min_size=3, max_size=9), st.integers(1, 3))
def test_reordered_weights_are_the_same_weights_on_allowed_keys(row: list[float], allowed: int):
    weights, there = np.array([[row]], np.float32), np.zeros((1, 1, len(row)), bool)
    there[..., :allowed] = True
    for found in (permuted(weights, there, np.random.default_rng(0)), reversed_order(weights, there)):
        assert sorted(found[there]) == sorted(weights[there]) and not found[~there].any()
    before, after = weights[0, 0, :allowed], reversed_order(weights, there)[0, 0, :allowed]
    assert not ((before[:, None] < before) & (after[:, None] < after)).any()


def test_flow_and_rollout_of_two_layers_by_hand():
    swap, stay = np.array([[0.0, 1], [1, 0]]), np.eye(2)
    # With the residual each entry of the first layer has half of its weight on each input.
    np.testing.assert_allclose(rollout([swap, stay]), [[0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(flow([swap, stay], 0), [0.5, 0.5], atol=1e-5)
    # The second layer swaps, too: each input is reached on two ways of at most a half.
    np.testing.assert_allclose(flow([swap, swap], 0), [1, 1], atol=1e-5)
    np.testing.assert_allclose(rollout([swap, swap]), [[0.5, 0.5], [0.5, 0.5]])


def test_quality_by_hand():
    assert edits("a b c".split(), "a x c d".split()) == 2
    assert token_f1(["a", "b"], ["a"]) == pytest.approx(2 / 3) and token_f1([], []) == 1 and token_f1(["a"], []) == 0
    assert macro_f1(np.array(["a", "a", "b"]), np.array(["a", "b", "b"])) == pytest.approx(2 / 3)
    assert macro_f1(np.array(["a", "c"]), np.array(["a", "b"])) == pytest.approx(1 / 3)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abc")), min_size=1))
def test_macro_f1_is_that_of_scikit_learn(pairs: list[tuple[str, str]]):
    metrics = pytest.importorskip("sklearn.metrics")
    found, expected = (np.array(side) for side in zip(*pairs, strict=True))
    assert macro_f1(found, expected) == pytest.approx(metrics.f1_score(expected, found, average="macro"))


def test_a_nested_map_is_measured_by_the_product_of_its_levels():
    lines = LabelSet("lines", "sentences", ("a b", "c d"))
    words = LabelSet("words", "tokens", tuple("abcd"), parents=np.array([0, 0, 1, 1]), parent="lines")
    shares = np.array([[[0.5, 0.5, 0, 0], [0, 0, 0.75, 0.25]]], np.float32)
    word = AttentionMap(name="word", kind="pool", heads=(0,), weights=shares, query=lines, key=words)
    own = np.array([[[0.0, 1.0]]], np.float32)
    line = AttentionMap(
        name="line", kind="pool", heads=(0,), weights=own, query=LabelSet("all", "one", ("all",)), key=lines
    )
    assert key_weights(word, [word, line]).tolist() == [0, 0, 0.75, 0.25]
    assert key_weights(word, [word]).tolist() == [0.25, 0.25, 0.375, 0.125], "the level above is not here"
    assert key_weights(line, [word, line]).tolist() == [0, 1]
    shares = np.array([0, 0, 0.75, 0.25])
    entropy = -(shares[2:] * np.log(shares[2:])).sum() / np.log(4)
    assert map_entropy(word, [word, line]) == pytest.approx(entropy)


def test_a_text_moves_by_the_probabilities_of_its_tokens():
    before, after = (Reply("ab", math.prod(each), None, np.array(each)) for each in ([0.8, 0.5], [0.2, 0.5]))
    assert moved(before, after) == pytest.approx(0.3) and probability_of(after, before) == pytest.approx(0.1)
    assert log_lost(before, after) == pytest.approx(math.log(4) / 2)
    for other in (Reply("a", 0.2, None, np.array([0.2])), Reply("b", 0.1, None)):  # not the same tokens
        assert all(math.isnan(each(before, other)) for each in (moved, log_lost)) and math.isnan(
            probability_of(other, before)
        )


def test_meteor_by_hand():
    pairs = [("the cat sat", "the cats sat"), ("sat the cat", "the cat sat"), ("a dog", "the cat sat"), ("", "the cat")]
    pairs.append(("the cat", "the cat sat"))
    # All three match, in one chunk, in two; none; none; two of three, in one: F = 10 P R / (R + 9 P) is 20/29.
    parts = [(1, 1 / 3), (1, 2 / 3), (0, 0), (0, 0), (20 / 29, 1 / 2)]
    wanted = [mean * (1 - 0.5 * chunks**3) for mean, chunks in parts]
    np.testing.assert_allclose(meteor(pairs), wanted, atol=1e-6)


def test_words_that_are_phones_are_called_so():
    heard = [("HH AH0 L", "HH AH0 L OW1"), ("b ae t", "b ih t")]
    (rate, *_) = _of_texts(heard)
    assert (rate.name, rate.rows, rate.value) == ("phone error rate", 2, pytest.approx(2 / 7))
    (rate, *_) = _of_texts([*heard, ("cat", "k ae cat")])
    assert (rate.name, rate.value) == ("word error rate", pytest.approx(4 / 10))


def test_masked_heads_are_counted_up_to_all():
    assert pruned_counts(2) == [1, 2] and pruned_counts(12) == [2, 4, 6, 8, 10, 12]


def test_words_are_those_of_every_text_of_an_input():
    assert word_spans("the  cat\nsat") == [(0, 3), (5, 8), (9, 12)]
    assert words_of("text", values_pb2.Value(text="a  cat")) == [Span("text", 0, 1), Span("text", 3, 6)]
    pair = values_pb2.Value(pair=values_pb2.Pair(first="a", second="b c"))
    assert words_of("pair", pair)[1:] == [Span("pair.second", 0, 1), Span("pair.second", 2, 3)]


def test_words_of_a_list_of_sentences_have_the_weights_of_their_keys():
    sentences = values_pb2.Sentences(texts=["a cat", "dog", "b c unread"])
    words = words_of("document", values_pb2.Value(document=values_pb2.Document(sentences=sentences)))
    assert [each.sentence for each in words] == [0, 0, 1, 2, 2, 2]
    labels = LabelSet(
        "words", "tokens", ("a", "c", "at", "dog", "b", "c"), inputs=("document",),
        parents=np.array([0, 0, 0, 1, 2, 2]), starts=np.array([0, 2, 3, 0, 0, 2]), ends=np.array([1, 3, 5, 3, 1, 3]),
    )  # fmt: skip
    weights = np.array([[[0.3, 0.06, 0.04, 0.4, 0.15, 0.05]]], np.float32)
    query = LabelSet("document", "one", ("document",))
    found = AttentionMap(name="word", kind="pool", heads=(0,), weights=weights, query=query, key=labels)
    np.testing.assert_allclose(word_weights(found, words), [0.3, 0.1, 0.4, 0.15, 0.05, np.nan], rtol=1e-6)
    assert word_weights(replace(found, key=replace(labels, inputs=("other",))), words) is None


def test_marks_cover_tokens_that_share_a_character_and_cells_whose_centre_is_inside():
    tokens = LabelSet(
        "words", "tokens", ("[CLS]", "the", "cat"), starts=np.array([0, 0, 4]), ends=np.array([0, 3, 7]),
        flags=np.array([True, False, False]), inputs=("text",),
    )  # fmt: skip
    assert covered(tokens, [Span("text", 6, 9)]).tolist() == [False, False, True]
    assert not covered(tokens, [Span("other", 6, 9)]).any()
    grid = Grid(1, 2, (), Region(0, 0, 20, 10))
    assert covered(LabelSet("cells", "grid", ("a", "b"), grid=grid), [Box("image", 0, 0, 12, 10)]).tolist() == [1, 0]


def test_figures_are_of_the_rows_that_have_them():
    samples = Samples()
    for row, value in enumerate([1.0, 2.0, math.nan, 6.0]):
        samples.add("m", "map", "x", row, value)
        samples.add("m", "", "y", row, -row)
    mean, _ = samples.means("m")
    assert (mean.value, mean.rows, mean.subject) == (3, 3, "map")
    found = samples.correlation("map", "with y", ("m", "map", "x"), ("m", "", "y"))
    assert found.value == pytest.approx(-1) and found.rows == 3
