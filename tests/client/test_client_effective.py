"""Effective attention: what of the weights reaches the output, on random weights and values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight import effective_attention

SIZES = st.integers(1, 12)


@given(SIZES, SIZES, SIZES, st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_effective_attention_gives_the_same_output_and_nothing_of_it_is_lost_twice(
    queries: int, keys: int, features: int, rank: int, seed: int
) -> None:
    """Of values of any rank, of zeros too, and with an output map."""
    random = np.random.default_rng(seed)
    weights = random.dirichlet(np.ones(keys), (2, queries))
    values = random.standard_normal((2, keys, rank)) @ random.standard_normal((2, rank, features))
    output = random.standard_normal((2, features, 16)) if rank % 2 else None
    made = values if output is None else values @ output
    effective = effective_attention(weights, values, output)
    assert effective.shape == weights.shape
    np.testing.assert_allclose(effective @ made, weights @ made, atol=1e-6 * max(1.0, np.abs(made).max()))
    np.testing.assert_allclose(effective_attention(effective, values, output), effective, atol=1e-9)
    # It is the shortest of all weights that give this output; and where no others give it, it is the weights.
    lost = weights - effective
    np.testing.assert_allclose((lost * effective).sum(-1), 0, atol=1e-9)
    if keys <= min(rank, features):
        np.testing.assert_allclose(effective, weights, atol=1e-6)
    np.testing.assert_array_equal(effective_attention(weights, np.zeros_like(values)), np.zeros_like(weights))


def test_effective_attention_by_hand() -> None:
    """Two keys with one value: their weights count together. A third without a value counts for nothing."""
    weights, values = np.array([[[0.6, 0.2, 0.2]]]), np.array([[[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]])
    np.testing.assert_allclose(effective_attention(weights, values), [[[0.4, 0.4, 0.0]]], atol=1e-12)


def test_the_output_map_may_take_more_away_than_values_do() -> None:
    """One that reads the first feature alone, in which both keys have the same."""
    weights, values = np.array([[[0.75, 0.25]]]), np.array([[[1.0, 2.0], [1.0, -3.0]]])
    np.testing.assert_allclose(effective_attention(weights, values), weights, atol=1e-12)
    output = np.array([[[1.0, 1.0], [0.0, 0.0]]])
    np.testing.assert_allclose(effective_attention(weights, values, output), [[[0.5, 0.5]]], atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 5), (1, 3, 5)])
def test_values_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"have the shapes \[2, 2, 3\] and"):
        effective_attention(np.ones((2, 2, 3)), np.ones(shape))
