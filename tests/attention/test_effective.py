"""What holds for all attention without a matrix: its weights are those by which it sums values, whoever asks."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from limelight_models.attention.effective.core import Effective, without_maps
from limelight_models.attention.errors import ShapeError
from limelight_models.zoo.long.deepseek_sparse import Indexed, IndexedHeads
from tests.attention.effective_cases import CASES, HEADS, D

each = pytest.mark.parametrize("name", CASES)
few = settings(max_examples=10, deadline=None)
lengths = st.integers(1, 23)


def made(name: str) -> Effective[Any]:
    """In float64, with parameters that are not as they begin, so that differences show."""
    torch.manual_seed(0)
    attention = CASES[name]()
    for parameter in attention.parameters():
        parameter.data.mul_(2).add_(0.1 * torch.randn_like(parameter))
    return attention.double().eval().requires_grad_(False)


def tensors(count: int, batch: int = 2, seed: int = 1) -> list[Tensor]:
    """Query, key and value."""
    chance = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, HEADS, count, D, generator=chance, dtype=torch.float64) for _ in range(3)]


def mask_of(*counts: int, longest: int) -> Tensor:
    """[batch, 1, 1, key], True for so many keys."""
    return (torch.arange(longest) < torch.tensor(counts)[:, None])[:, None, None]


@each
@few
@given(count=lengths)
def test_weights_times_values_are_the_context_vectors_and_rows_alone_are_those_of_all(name: str, count: int) -> None:
    attention, (query, key, value) = made(name), tensors(count)
    found, weights = attention(query, key, value)
    torch.testing.assert_close(weights @ value, found, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(attention.context_vectors(query, key, value), found)
    index = torch.tensor([count - 1, 0, count // 2])
    alone = attention.rows(attention.prepare(query, key, None), index)
    torch.testing.assert_close(alone, weights[:, :, index], atol=1e-12, rtol=1e-9)
    if attention.normalised:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    if not attention.signed:
        assert weights.min() >= 0
    if attention.causal:
        assert weights.triu(1).abs().max() == 0


@each
@few
@given(counts=st.tuples(lengths, lengths), more=st.integers(0, 9))
def test_company_and_padding_change_nothing(name: str, counts: tuple[int, int], more: int) -> None:
    attention, longest = made(name), max(counts) + more
    query, key, value = tensors(longest)
    found, weights = attention(query, key, value, mask_of(*counts, longest=longest))
    for row, count in enumerate(counts):
        alone = [tensor[row : row + 1, :, :count] for tensor in (query, key, value)]
        wanted, own = attention(*alone)
        torch.testing.assert_close(found[row : row + 1, :, :count], wanted, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(weights[row : row + 1, :, :count, :count], own, atol=1e-9, rtol=1e-9)
        assert count == longest or weights[row, :, :count, count:].abs().max() == 0


@pytest.mark.parametrize("name", [name for name in CASES if made(name).causal and hasattr(made(name), "step")])
@few
@given(count=lengths)
def test_token_by_token_is_as_all_at_once(name: str, count: int) -> None:
    attention: Any = made(name)
    query, key, value = tensors(count)
    wanted, left = attention.context_vectors(query, key, value), None
    for token in range(count):
        found, left = attention.step(*(each[:, :, token, None] for each in (query, key, value)), left)
        torch.testing.assert_close(found, wanted[:, :, token, None], atol=1e-9, rtol=1e-9)


@each
def test_a_query_with_no_key_gets_nothing_and_what_does_not_fit_is_refused(name: str) -> None:
    attention, (query, key, value) = made(name), tensors(5)
    found, weights = attention(query, key, value, mask_of(0, 3, longest=5))
    assert found[0].abs().max() == 0 and weights[0].abs().max() == 0
    assert torch.isfinite(found).all() and torch.isfinite(weights).all()
    with pytest.raises(ShapeError, match="of keys alone"):
        attention(query, key, value, torch.ones(2, 1, 5, 5, dtype=torch.bool))
    with pytest.raises(ShapeError, match="must be"):
        attention(query[0], key, value)


@each
def test_values_are_summed_the_same_where_no_map_is_wanted(name: str) -> None:
    attention, (query, key, value) = made(name), tensors(7)
    wanted, whole = attention(query, key, value)
    with without_maps(attention):
        found, weights = attention(query, key, value)
    torch.testing.assert_close(found, wanted, atol=0, rtol=0)
    assert weights.shape == whole[:, :, :0].shape
    torch.testing.assert_close(attention(query, key, value)[1], whole, atol=0, rtol=0)


def test_many_keys_that_are_alike_lose_nothing_in_single_precision() -> None:
    """Whose corrections of each other are large numbers that cancel, if they are added up as powers of a matrix."""
    attention, (query, key, value) = made("gated deltanet"), tensors(600)
    attention.chunk = 64
    key[..., :4] = torch.nn.functional.normalize(key[:, :, :1, :4], dim=-1)
    key[..., 4], key[..., 5] = 4.0, -9.0  # written strongly, and not forgotten
    exact, found = attention(query, key, value)[0], attention.float()(query.float(), key.float(), value.float())
    torch.testing.assert_close(found[0].double(), exact, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(found[1] @ value.float(), found[0], atol=2e-4, rtol=1e-4)


def test_an_index_learns_where_attention_looks_and_teaches_nothing_else() -> None:
    """By its own cost alone: after it, the keys that it chooses have more of the weight of attention over all."""
    torch.manual_seed(0)
    heads = IndexedHeads(Indexed(d_index=6, most=4), d_model=12, heads=2)
    heads.query_map.weight.data.mul_(4)
    features = torch.randn(4, 40, 12)

    def held() -> Tensor:
        """What the chosen keys have of the weight of all."""
        query, key, value = heads.project(features, features, None)
        chosen = heads.attention(query, key, value)[1] > 0
        whole = (query[..., :6] @ key[..., :6].transpose(-2, -1) / 6**0.5).masked_fill(
            torch.ones(40, 40).triu(1).bool(), -torch.inf
        )
        return (whole.softmax(-1) * chosen).sum(-1)[:, :, 10:].mean()

    before, learner = held(), torch.optim.Adam(heads.parameters(), 0.03)
    for _ in range(40):
        learner.zero_grad()
        (heads(features, features)[0].sum() * 0).backward()
        learner.step()
    assert held() > before + 0.15
    assert {name.split(".")[0] for name, each in heads.named_parameters() if each.grad.abs().max() > 0} == {"indexer"}
    heads.eval()(features, features)[0].sum().backward()
    assert heads.query_map.weight.grad.abs().max() > 0
