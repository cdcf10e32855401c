"""Numbers far from 0: what is computed of differences is as right there as near 0, in single and in half precision."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from limelight_models.attention import Attention
from limelight_models.attention.align.monotonic import expected_alignment
from limelight_models.attention.align.reinforced import Selector
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import GaussianKernel, NegativeDistance, ScaledDot
from limelight_models.attention.score.feature import group_moments
from limelight_models.attention.score.similarity import unit

offsets = st.floats(-1e4, 1e4)
seeds = st.integers(0, 2**31)
examples = settings(max_examples=25, deadline=None)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def moments(key: np.ndarray, valid: np.ndarray, radius: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each window, by their definition, in double precision."""
    mean, spread = np.zeros_like(key), np.zeros_like(key)
    for place in range(len(key)):
        near = [each for each in range(len(key)) if abs(each - place) <= radius and valid[each]]
        if near:
            mean[place] = key[near].mean(0)
            spread[place] = np.sqrt(((key[near] - mean[place]) ** 2).mean(0))
    return mean, spread


@examples
@given(offsets, seeds, st.integers(0, 3), st.booleans())
def test_the_deviation_of_a_window_is_right_wherever_its_keys_lie(
    offset: float, seed: int, radius: int, climbing: bool
) -> None:
    key = normal(1, 1, 9, 4, seed=seed) + offset
    if climbing:  # no one number is near to all windows
        key = key + offset * torch.arange(9).unsqueeze(-1)
    mask = normal(1, 1, 1, 9, seed=seed + 1) > -0.8
    mean, spread = group_moments(key, mask, radius)
    expected = moments(key[0, 0].double().numpy(), mask[0, 0, 0].numpy(), radius)
    step = np.finfo(np.float32).eps * max(1.0, float(key.abs().max()))  # what the keys themselves are rounded to
    valid = mask[0, 0, 0].numpy()
    np.testing.assert_allclose(mean[0, 0].numpy()[valid], expected[0][valid], rtol=1e-6, atol=2 * step)
    np.testing.assert_allclose(spread[0, 0].numpy()[valid], expected[1][valid], rtol=1e-5, atol=2 * step)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_window_of_large_halves_has_a_finite_deviation(dtype: torch.dtype) -> None:
    key = (300 + 50 * normal(1, 1, 9, 4, seed=0)).to(dtype)
    _, spread = group_moments(key, None, 1)
    _, expected = group_moments(key.double(), None, 1)
    torch.testing.assert_close(spread.double(), expected, rtol=1e-2, atol=1e-2)
    assert torch.isfinite(group_moments(key * 100, None, 1)[1]).all()


@pytest.mark.parametrize("p", [1, 2])
def test_distances_of_halves_are_finite_where_they_fit(p: int) -> None:
    query, key = normal(1, 1, 3, 4, seed=0).half() * 400, normal(1, 1, 5, 4, seed=1).half() * 400
    found = NegativeDistance(p=p)(query, key, None)  # type: ignore[arg-type]
    expected = -torch.cdist(query.double(), key.double(), p=p)
    torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=1.0)


def test_the_exponent_of_a_gaussian_kernel_of_halves_is_finite() -> None:
    query, key = 1000 * normal(1, 1, 3, 4, seed=0).half(), 1000 * normal(1, 1, 5, 4, seed=1).half()
    assert torch.isfinite(GaussianKernel(log=True)(query, key, None)).all()  # type: ignore[arg-type]


@examples
@given(st.floats(-3e4, 3e4), seeds)
def test_vectors_of_halves_have_length_1(offset: float, seed: int) -> None:
    vectors = (normal(2, 6, seed=seed) + offset).half()
    torch.testing.assert_close(unit(vectors).double().norm(dim=-1), torch.ones(2).double(), rtol=5e-3, atol=5e-3)


def test_the_mean_of_many_large_halves_is_finite() -> None:
    torch.manual_seed(0)
    selector = Selector(d=4, d_hidden=3).half()
    features = (300 + normal(1, 1, 600, 4, seed=0)).half()
    assert torch.isfinite(selector(features / 16, torch.ones(1, 1, 1, 600, dtype=torch.bool))).all()
    assert torch.isfinite(selector(features / 16)).all()


def test_norms_of_values_of_halves_are_finite() -> None:
    torch.manual_seed(0)
    module = MultiHead(attention=Attention(score=ScaledDot()), d_model=8, heads=2).half()
    features = normal(1, 5, 8, seed=0).half()
    with torch.no_grad():
        _, looks = module.quantities(features, features, 2000 * features)
    assert looks.norms is not None and torch.isfinite(looks.norms).all()


@examples
@given(seeds, st.floats(1e2, 1e5))
def test_where_one_stops_is_right_behind_a_key_that_stops_almost_surely(seed: int, certain: float) -> None:
    scores = normal(1, 1, 1, 8, seed=seed)
    scores[..., 1] = certain
    previous = torch.tensor([[[[0, 0, 0.25, 0.25, 0.25, 0.25, 0, 0]]]])
    found = expected_alignment(scores, previous, None)
    expected = expected_alignment(scores.double(), previous.double(), None)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
