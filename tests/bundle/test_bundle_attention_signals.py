"""Signals of attention: numbers that a reader checks by hand, and what holds for all maps."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.attention_drift import FEWEST_INPUTS, MOST_INPUTS, ROWS, Reference, decayed, stability_index
from limelight_bundle.attention_signals import (
    BINS,
    SIGNALS,
    counts,
    is_observable,
    references,
    signals,
)
from limelight_bundle.maps import MapWeights
from limelight_bundle.rows import Labels
from limelight_bundle.values import Array

SELF = model_pb2.MapDescription(name="self", normalised=True, heads=1, query_labels="tokens", key_labels="tokens")
CROSS = model_pb2.MapDescription(name="cross", normalised=True, heads=1, query_labels="steps", key_labels="tokens")


def tokens(*special: bool) -> dict[str, Labels]:
    return {"tokens": Labels("tokens", attention_pb2.LABEL_KIND_TOKENS, len(special), special=special)}


def test_signals_of_a_causal_map_by_hand() -> None:
    weights = np.array([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.2, 0.6]]], dtype=np.float32)
    found = signals(MapWeights(weights), SELF, tokens(True, False, False))
    assert set(found) == set(SIGNALS)
    # The first query may attend to one key: its entropy says nothing.
    third = -(0.4 * math.log(0.2) + 0.6 * math.log(0.6)) / math.log(3)
    np.testing.assert_allclose(found["entropy"], [1.0, third], rtol=1e-6)
    np.testing.assert_allclose(found["special"], [1.0, 0.5, 0.2], rtol=1e-6)
    np.testing.assert_allclose(found["largest"], [1.0, 0.5, 0.6], rtol=1e-6)
    np.testing.assert_allclose(found["distance"], [0.0, 0.25, 0.3], rtol=1e-6)


def test_what_an_axis_does_not_have_is_not_told() -> None:
    found = signals(MapWeights(np.full((2, 3, 4), 0.25, dtype=np.float32)), CROSS, tokens(*[False] * 4))
    assert set(found) == {"entropy", "largest"}
    np.testing.assert_allclose(found["entropy"], np.ones(6), rtol=1e-6)


def test_a_query_with_nothing_to_attend_to_has_no_signals() -> None:
    weights = np.array([[[0.0, 0.0], [0.5, 0.5]]], dtype=np.float32)
    assert {name: len(values) for name, values in signals(MapWeights(weights), SELF, tokens(True, False)).items()} == {
        "entropy": 1,
        "special": 1,
        "largest": 1,
        "distance": 1,
    }


def test_edges_have_the_signals_of_the_dense_map() -> None:
    weights = np.array([[[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]], dtype=np.float32)
    dense = signals(MapWeights(weights), CROSS, tokens(False, True, False))
    queries, keys = np.array([0, 0, 1], dtype=np.int32), np.array([0, 1, 2], dtype=np.int32)
    edges = signals(MapWeights(weights[:, queries, keys], queries, keys), CROSS, tokens(False, True, False))
    assert dense.keys() == edges.keys()
    for name, values in dense.items():
        np.testing.assert_array_equal(edges[name], values)


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5)),
        elements=st.floats(0, 1, width=32),
    )
)
def test_signals_are_from_zero_to_one_whatever_the_weights(weights: Array) -> None:
    sums = weights.sum(axis=2, keepdims=True)
    weights = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
    for description in (SELF, CROSS):
        for values in signals(MapWeights(weights), description, tokens(*[True] * weights.shape[2])).values():
            assert values.size and ((values >= 0) & (values <= 1)).all()
            assert counts(values).sum() == values.size


def test_values_are_counted_in_bins_whose_upper_bounds_belong_to_them() -> None:
    assert counts(np.array([0.0, 0.1, 0.11, 1.0])).tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]


bins = arrays.arrays(np.int64, BINS, elements=st.integers(0, 1000)).filter(lambda each: each.any())


@given(bins, bins)
def test_the_stability_index_is_a_distance(one: Array, other: Array) -> None:
    assert stability_index(one, 7 * one) == pytest.approx(0)
    assert stability_index(one, other) >= 0
    assert stability_index(one, other) == pytest.approx(stability_index(other, one))


def test_a_stability_index_by_hand() -> None:
    one, other = np.array([100, 100]), np.array([50, 150])
    assert stability_index(one, other) == pytest.approx(-0.25 * math.log(0.5) + 0.25 * math.log(1.5))
    assert stability_index(np.array([0, 9]), np.array([9, 0])) == pytest.approx(2 * 0.999 * math.log(1000))


def test_references_count_all_inputs_of_maps_that_are_distributions() -> None:
    signed = model_pb2.MapDescription(name="signed", signed=True, heads=1)
    assert not is_observable(signed)
    weights = {
        "cross": MapWeights(np.full((2, 3, 4), 0.25, dtype=np.float32)),
        "signed": MapWeights(np.zeros((1, 1, 1))),
    }
    assert references([CROSS, signed], [(weights, {})] * (FEWEST_INPUTS - 1)) == []  # too few
    found = references([CROSS, signed], [(weights, {})] * (MOST_INPUTS + 1))
    assert [(each.map, each.signal, each.inputs, sum(each.bins)) for each in found] == [
        ("cross", "largest", MOST_INPUTS, 6 * MOST_INPUTS),
        ("cross", "entropy", MOST_INPUTS, 6 * MOST_INPUTS),
    ]


def test_a_threshold_is_what_chance_does_to_ordinary_inputs() -> None:
    """Inputs whose queries look alike, as those of one text do, are far fewer than their counts."""
    chance = np.random.default_rng(1)

    def inputs(share: float) -> list[tuple[dict[str, MapWeights], dict[str, Labels]]]:
        largest = chance.choice([0.35, 0.95], size=1000, p=[1 - share, share])
        rows = [np.full((2, 20, 1), each) * [1, 0, 0] + np.array([0, 1, 1]) * (1 - each) / 2 for each in largest]
        return [({"cross": MapWeights(each.astype(np.float32))}, {}) for each in rows]

    made = {each.signal: each for each in references([CROSS], inputs(0.5))}["largest"]
    assert len(made.thresholds) == len(ROWS) and made.thresholds[0] > 2 * made.thresholds[-1] >= 0.2
    reference = Reference(np.array(made.bins), np.array(made.thresholds))
    drifts: dict[float, list[float]] = {}
    for share in (0.5, 0.95):
        observed = np.zeros(BINS)
        for row, (maps, _) in enumerate(inputs(share), 1):
            observed = decayed(observed, counts(signals(maps["cross"], CROSS, {})["largest"]))
            drift = reference.drift(observed, row)
            assert (drift is None) == (row < ROWS[0])
            drifts.setdefault(share, []).append(drift or 0)
    assert max(drifts[0.5]) < 1 < drifts[0.95][-1]
