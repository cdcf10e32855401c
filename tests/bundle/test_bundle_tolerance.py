"""Allowed differences of answers, by the numbers of the design."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_bundle.tolerance import Tolerances, default_tolerances, output_scale, row_magnitude
from limelight_bundle.v1 import bundle_pb2

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def differs(by: float, *, of: float, provider: str = CPU, is_map: bool = False) -> bool:
    """Tell whether a number that should be `of` is refused where it is off; a row of a map has another weight of 1."""
    expected = np.array([1.0, of])
    name = "pool" if is_map else "logits"
    actual = expected + np.array([0, by])
    return bool(Tolerances(default_tolerances(["pool"]), provider).difference(name, actual, expected, is_map=is_map))


@pytest.mark.parametrize(
    ("provider", "is_map", "of", "allowed"),
    [
        (CPU, False, 0.0, 1e-5),
        (CPU, False, 100.0, 1e-3 + 1e-2),
        (CPU, True, 0.0, 1e-5 + 1e-3),
        (CPU, True, 0.5, 1e-5 + 1e-3),
        (CUDA, False, 0.0, 1e-4),
        (CUDA, False, 100.0, 1e-2 + 1e-1),
        (CUDA, True, 0.0, 1e-4 + 1e-2),
    ],
)
def test_the_numbers_of_the_design(provider: str, is_map: bool, of: float, allowed: float) -> None:
    assert not differs(0.99 * allowed, of=of, provider=provider, is_map=is_map)
    assert not differs(-0.99 * allowed, of=of, provider=provider, is_map=is_map)
    assert differs(1.02 * allowed, of=of, provider=provider, is_map=is_map)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_differs(value: float) -> None:
    expected = np.zeros(3)
    actual = np.array([0, value, 0])
    assert Tolerances(default_tolerances([]), CPU).difference("x", actual, expected, is_map=False)


def test_shapes_and_integers_must_be_equal() -> None:
    tolerances = Tolerances(default_tolerances([]), CPU)
    assert tolerances.difference("x", np.zeros(2), np.zeros((2, 1)), is_map=False) == "x has shape [2], not [2, 1]"
    assert tolerances.difference("x", np.array([1]), np.array([2]), is_map=False) == "x differs"
    assert not tolerances.difference("x", np.array([2]), np.array([2]), is_map=False)
    assert not tolerances.difference("x", np.zeros((1, 0)), np.zeros((1, 0)), is_map=True)


def test_the_message_names_the_output_and_by_how_much() -> None:
    tolerances = Tolerances(default_tolerances([]), CPU)
    found = tolerances.difference("logits", np.array([0.5, 0]), np.array([0, 0.0]), is_map=False)
    assert found == "logits differs by up to 0.5"


def test_the_most_particular_tolerance_counts() -> None:
    stated = [
        bundle_pb2.Tolerance(absolute=1),
        bundle_pb2.Tolerance(provider=CUDA, absolute=2),
        bundle_pb2.Tolerance(name="logits", absolute=3),
        bundle_pb2.Tolerance(provider=CUDA, name="logits", absolute=4),
    ]
    for provider, name, allowed in [(CPU, "x", 1), (CUDA, "x", 2), (CPU, "logits", 3), (CUDA, "logits", 4)]:
        for order in (stated, stated[::-1]):
            tolerances = Tolerances(order, provider)
            assert not tolerances.difference(name, np.array([allowed - 0.1]), np.zeros(1), is_map=False)
            assert tolerances.difference(name, np.array([allowed + 0.1]), np.zeros(1), is_map=False)


@pytest.mark.parametrize(
    ("row", "scale"),
    [
        ([0.1, -0.2], 1),
        ([0.0, -19.0, 3.0], 19),
        ([0.0, -1e4, 3.0], 3),  # a token that is never put out
        ([np.log(1e-30), -1e4 + 12, -0.0], 69.0776),
    ],
)
def test_a_number_near_0_has_the_rounding_of_its_row_alone(row: list[float], scale: float) -> None:
    other = [0.0] * len(row)
    expected = np.array([row, other])
    np.testing.assert_allclose(output_scale(expected), [[scale], [1]], rtol=1e-5)
    tolerances, place = Tolerances(default_tolerances([]), CPU), int(np.abs(row).argmin())
    for line, allowed in enumerate((1e-5 * scale, 1e-5)):
        for factor, differs in ((0.99, False), (1.1, True)):
            actual = expected.copy()
            actual[line, place] += factor * (allowed + 1e-4 * abs(expected[line, place]))
            assert bool(tolerances.difference("scores", actual, expected, is_map=False)) == differs


def test_a_single_number_is_compared() -> None:
    tolerances = Tolerances(default_tolerances([]), CPU)
    assert not tolerances.difference("x", np.array(3.0), np.array(3.0003), is_map=False)
    assert tolerances.difference("x", np.array(3.0), np.array(3.001), is_map=False)


def test_without_a_tolerance_nothing_may_differ() -> None:
    assert Tolerances([], CPU).difference("x", np.array([1e-9]), np.zeros(1), is_map=False)


@given(st.integers(1, 3), st.integers(1, 40), st.floats(-30, 30), st.integers(0, 2**31))
def test_a_map_is_rounded_by_at_most_a_quarter_of_its_tolerance(
    queries: int, keys: int, power: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    weights = (random.standard_normal((2, queries, keys)) * 2.0**power).astype(np.float32)
    lowest = np.finfo(np.float32).min
    weights[random.random(weights.shape) < 0.2] = lowest  # impossible positions of scores
    tolerances = Tolerances(default_tolerances(["scores"]), CPU)
    kept = tolerances.rounded("scores", weights)
    possible = weights != lowest
    np.testing.assert_array_equal(kept[~possible], lowest)
    allowed = 1e-5 + 1e-3 * row_magnitude(weights)
    assert kept.dtype == np.float32 and (np.abs(kept - weights) <= np.where(possible, allowed / 4, 0)).all()
    assert not tolerances.difference("scores", kept, weights, is_map=True)


def test_a_map_without_a_tolerance_stays_as_it_is() -> None:
    weights = np.array([[[0.123456789, 0.0]]], np.float32)
    np.testing.assert_array_equal(Tolerances([], CPU).rounded("x", weights), weights)
