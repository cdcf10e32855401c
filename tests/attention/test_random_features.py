"""Random features estimate the kernel that they are drawn for, the better the more there are."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch.nn.functional import cosine_similarity

from limelight_models.attention.effective.kernel import KernelSums
from limelight_models.attention.effective.random import Favor, gaussian, orthogonal
from limelight_models.zoo.long.random_features import RandomFeatureAttention
from tests.attention.effective_cases import HEADS, D
from tests.attention.test_effective import tensors

MANY = 20_000


@pytest.mark.parametrize(
    "made",
    [partial(Favor, **kind) for kind in ({}, {"independent": True}, {"trigonometric": True}, {"causal": True})],
)
def test_many_features_come_near_the_softmax(made: Callable[..., KernelSums]) -> None:
    torch.manual_seed(0)
    attention, (query, key, _) = made(d=D, features=MANY).double(), tensors(9)
    query, key = query / 2, key / 2  # the estimate's variance grows with the exponential of the scores
    scores = query @ key.transpose(-2, -1) / D**0.5
    if attention.causal:
        scores = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(attention(query, key)[1], scores.softmax(-1), atol=0.02, rtol=0)


def test_features_of_unit_vectors_come_near_the_softmax_of_their_cosines() -> None:
    torch.manual_seed(0)
    attention, (query, key, _) = RandomFeatureAttention(d=D, heads=HEADS, features=MANY), tensors(9)
    with torch.no_grad():
        attention.spread[1] = 0.5
    cosines = cosine_similarity(query.unsqueeze(3), key.unsqueeze(2), dim=-1)
    wanted = (cosines * torch.tensor([1.0, 0.25])[:, None, None]).softmax(-1)
    torch.testing.assert_close(attention.double()(query, key)[1], wanted, atol=0.05, rtol=0)


def test_orthogonal_directions_are_so_block_by_block_and_as_long_as_independent_ones() -> None:
    torch.manual_seed(0)
    block, other, rest = orthogonal(2 * D + 2, D).split((D, D, 2))
    for each in (block, other, rest):
        products = each @ each.T
        torch.testing.assert_close(products, products.diag().diag(), atol=1e-5, rtol=0)
    lengths = [made(6000, D).norm(dim=-1) for made in (orthogonal, gaussian)]
    assert lengths[0].std().item() == pytest.approx(lengths[1].std().item(), rel=0.05)
    assert lengths[0].mean().item() == pytest.approx(lengths[1].mean().item(), rel=0.01)
