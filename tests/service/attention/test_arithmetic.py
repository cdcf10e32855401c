"""Reduction, rollout, top k and encoding, with numbers that a reader can check by hand."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from limelight_service.attention.options import Encoding, HeadReduction
from limelight_service.engine.attention.encode import encode_dense, encode_edges
from limelight_service.engine.attention.heads import Floats, mean_of_scores, reduce_heads
from limelight_service.engine.attention.rollout import rollout
from limelight_service.engine.attention.topk import NO_KEY, top_k, top_k_edges

weights_of = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=6),
    elements=st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0, float("nan")]) | st.floats(0, 1, width=32),
)


def floats(values: object) -> Floats:
    return np.asarray(values, dtype=np.float32)


def test_mean_and_max_over_heads_keep_the_axis() -> None:
    weights = floats([[[0.2, 0.8]], [[0.6, 0.4]]])
    np.testing.assert_allclose(reduce_heads(weights, HeadReduction.MEAN), [[[0.4, 0.6]]], rtol=1e-6)
    np.testing.assert_allclose(reduce_heads(weights, HeadReduction.MAX), [[[0.6, 0.8]]], rtol=1e-6)
    assert reduce_heads(weights, HeadReduction.NONE) is weights


def test_rollout_of_two_layers_by_hand() -> None:
    first = floats([[[0.0, 1.0], [1.0, 0.0]]])  # each attends to the other: mixed with itself, halves
    second = floats([[[1.0, 0.0], [1.0, 0.0]]])  # all attend to 0: rows (1, 0) and (½, ½)
    # (1, 0) · halves = halves; (½, ½) · halves = halves
    np.testing.assert_allclose(rollout([first, second]), [[[0.5, 0.5], [0.5, 0.5]]])
    # The order matters: halves · [[1, 0], [½, ½]] = (¾, ¼) twice
    np.testing.assert_allclose(rollout([second, first]), [[[0.75, 0.25], [0.75, 0.25]]])


def test_rollout_of_a_row_that_attends_to_nothing_stays_with_itself() -> None:
    np.testing.assert_allclose(rollout([floats([[[0.0, 0.0], [0.5, 0.5]]])]), [[[1.0, 0.0], [0.25, 0.75]]])


@given(hnp.arrays(np.float32, (3, 2, 4, 4), elements=st.floats(0, 1, width=32)))
def test_rows_of_a_rollout_sum_to_one(layers: npt.NDArray[np.float32]) -> None:
    np.testing.assert_allclose(rollout(list(layers)).sum(axis=-1), 1, atol=1e-5)


def test_top_1_is_each_heads_own() -> None:
    kept = top_k(floats([[[0.1, 0.2, 0.7]], [[0.6, 0.3, 0.1]]]), 1)
    assert kept.keys.tolist() == [[[2]], [[0]]]
    np.testing.assert_array_equal(kept.weights, floats([[[0.7]], [[0.6]]]))
    np.testing.assert_allclose(kept.rest, [[0.3], [0.4]], rtol=1e-6)


def test_of_equal_weights_the_lowest_keys_are_kept() -> None:
    assert top_k(floats([[[0.25, 0.25, 0.25, 0.25]]]), 2).keys.tolist() == [[[0, 1]]]
    assert top_k(floats([[[0.1, 0.4, 0.1, 0.4, 0.4]]]), 2).keys.tolist() == [[[1, 3]]]


def test_a_query_of_few_edges_is_filled_up() -> None:
    row, key = np.array([0, 0, 0, 2]), np.array([1, 4, 5, 0], np.int32)
    kept = top_k_edges(floats([[0.2, 0.5, 0.3, 1.0], [0.6, 0.2, 0.2, 1.0]]), row, key, 4, 2)
    assert kept.keys.tolist() == [
        [[4, 5], [NO_KEY] * 2, [0, NO_KEY], [NO_KEY] * 2],
        [[1, 4], [NO_KEY] * 2, [0, NO_KEY], [NO_KEY] * 2],
    ]
    np.testing.assert_array_equal(kept.weights[:, [0, 2]], floats([[[0.5, 0.3], [1, 0]], [[0.6, 0.2], [1, 0]]]))
    np.testing.assert_allclose(kept.rest, [[0.2, 0, 0, 0], [0.2, 0, 0, 0]], rtol=1e-6)
    # As many places as the longest row has, however many are asked for.
    assert top_k_edges(floats([[0.2, 0.5, 0.3, 1.0]]), row, key, 4, 9).weights.shape == (1, 4, 3)


@given(weights_of, st.integers(1, 8))
def test_top_k_is_what_sorting_each_row_gives(weights: Floats, k: int) -> None:
    kept = top_k(weights, k)
    np.testing.assert_array_equal(kept.weights, np.take_along_axis(weights, kept.keys, axis=2))
    for place in np.ndindex(weights.shape[:2]):
        row = weights[place]
        ranked = sorted(range(len(row)), key=lambda key: (-row[key] if not np.isnan(row[key]) else np.inf, key))
        assert kept.keys[place].tolist() == sorted(ranked[:k])
        np.testing.assert_allclose(kept.rest[place], row[ranked[k:]].sum(), rtol=1e-5)


@given(weights_of, st.integers(1, 8))
def test_top_k_of_edges_is_top_k_of_the_same_weights_as_a_rectangle(weights: Floats, k: int) -> None:
    query, key = np.indices(weights.shape[1:]).reshape(2, -1)
    flat = weights.reshape(weights.shape[0], -1)
    of_edges = top_k_edges(flat, query, key.astype(np.int32), weights.shape[1], k)
    of_rectangle = top_k(weights, k)
    np.testing.assert_array_equal(of_edges.weights, of_rectangle.weights)
    np.testing.assert_array_equal(of_edges.keys, of_rectangle.keys)
    np.testing.assert_allclose(of_edges.rest, of_rectangle.rest, rtol=1e-5, atol=1e-6)


def test_the_mean_of_scores_is_over_the_heads_that_may_attend_there() -> None:
    low = float(np.finfo(np.float32).min)
    scores = floats([[[1.0, low, low]], [[3.0, -2.0, low]]])
    np.testing.assert_array_equal(mean_of_scores(scores, low), floats([[[2.0, -2.0, low]]]))


def test_uint8_by_hand() -> None:
    values, scales = encode_dense(floats([[[0.0, 2.55, 1.0], [0.0, 0.0, 0.0]]]), Encoding.UINT8)
    assert values.dtype == np.uint8
    assert values.tolist() == [[[0, 255, 100], [0, 0, 0]]]  # a step is 2.55 / 255 = 0.01
    np.testing.assert_allclose(scales, [[0.01, 0.0]], rtol=1e-6)  # type: ignore[arg-type]


@given(
    hnp.arrays(np.float32, hnp.array_shapes(min_dims=3, max_dims=4, max_side=5), elements=st.floats(0, 1e6, width=32))
)
def test_uint8_is_within_half_a_step_of_every_weight(weights: Floats) -> None:
    values, scales = encode_dense(weights, Encoding.UINT8)
    assert scales is not None and scales.shape == weights.shape[:2]
    step = scales.reshape(scales.shape + (1,) * (weights.ndim - 2))
    assert (np.abs(values * step - weights) <= 0.5001 * step + 1e-38).all()


def test_what_is_not_finite_spoils_only_itself() -> None:
    values, scales = encode_dense(floats([[[np.nan, 1.0], [np.inf, 2.0]]]), Encoding.UINT8)
    assert values.tolist() == [[[0, 255], [0, 255]]]
    edges, edge_scales = encode_edges(floats([[np.nan, 1.0, np.inf, 2.0]]), np.array([0, 0, 1, 1]), 2, Encoding.UINT8)
    assert edges.tolist() == [[0, 255, 0, 255]]
    np.testing.assert_array_equal(edge_scales, scales)


def test_edges_have_one_scale_a_query_and_zero_where_a_query_has_none() -> None:
    values, scales = encode_edges(floats([[0.5, 2.55, 1.0]]), np.array([0, 0, 2]), 3, Encoding.UINT8)
    assert values.tolist() == [[50, 255, 255]]
    np.testing.assert_allclose(scales, [[0.01, 0, 1 / 255]], rtol=1e-6)  # type: ignore[arg-type]


def test_no_edges_at_all_encode_to_nothing() -> None:
    for encoding in Encoding:
        values, _ = encode_edges(np.zeros((2, 0), np.float32), np.zeros(0, np.int64), 3, encoding)
        assert values.shape == (2, 0)


@settings(max_examples=200)
@given(st.floats(2**-13, 1, width=32))
def test_float16_is_within_a_thousandth_of_every_weight_over_a_ten_thousandth(weight: float) -> None:
    values, scales = encode_dense(floats([[[weight]]]), Encoding.FLOAT16)
    assert scales is None and values.dtype == np.float16
    assert abs(float(values[0, 0, 0]) - weight) <= 1e-3 * weight  # type: ignore[arg-type]


@given(st.integers(0, 2**12 - 1), st.integers(1, 40))
def test_float16_of_every_weight_is_the_nearest_half_as_numpy_rounds_it(first: int, step: int) -> None:
    # Bit patterns from 0 to the largest half, every step-th from the first, so that ties and subnormals come up too.
    largest = np.float32(65504).view(np.uint32)
    weights = np.arange(first, int(largest) + 1, step << 12, dtype=np.uint32).view(np.float32)
    found, _ = encode_dense(weights.reshape(1, 1, -1), Encoding.FLOAT16)
    np.testing.assert_array_equal(found.view(np.uint16).ravel(), weights.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("shape", [(1, 3, 70_000), (3, 300, 300), (2, 0, 5)])
@pytest.mark.parametrize("encoding", [Encoding.FLOAT16, Encoding.UINT8])
def test_large_maps_are_encoded_as_their_rows_are_alone(shape: tuple[int, int, int], encoding: Encoding) -> None:
    weights = np.random.default_rng(0).random(shape, np.float32)
    whole, scales = encode_dense(weights, encoding)
    for head, query in np.ndindex(shape[:2]):
        row, scale = encode_dense(weights[head : head + 1, query : query + 1], encoding)
        np.testing.assert_array_equal(whole[head, query], row[0, 0])
        if scales is not None and scale is not None:
            assert scales[head, query] == scale[0, 0]


def test_top_k_of_a_long_row_is_what_sorting_it_gives() -> None:
    weights = np.random.default_rng(0).random((2, 3, 3000), np.float32).round(3)  # with ties
    order = np.argsort(-weights, axis=2, kind="stable")[:, :, :5]
    np.testing.assert_array_equal(top_k(weights, 5).keys, np.sort(order, axis=2))


def test_what_is_left_out_of_a_row_does_not_depend_on_what_is_kept_of_it() -> None:
    weights = floats([[[np.inf, 0.25, 0.5], [0.5, 0.25, 0.25]]])
    np.testing.assert_array_equal(top_k(weights, 1).rest, [[0.75, 0.5]])
    assert not top_k(floats([[[np.nan, 0.25]]]), 2).rest.any()


def test_float16_of_a_large_score_is_large_and_keeps_its_sign() -> None:
    values, _ = encode_dense(floats([[[1e6, -1e6]]]), Encoding.FLOAT16)
    assert values.tolist() == [[[65504.0, -65504.0]]]


def test_each_encoding_is_half_the_size_of_the_one_before() -> None:
    sizes = [encode_dense(np.ones((1, 4, 4), np.float32), encoding)[0].nbytes for encoding in Encoding]
    assert all(larger == 2 * smaller for larger, smaller in pairwise(sizes))
