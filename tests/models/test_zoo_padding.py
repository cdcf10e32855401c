"""The same input gives the same answer alone, in a batch and padded: outputs and weights."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from limelight_models.cards.card import Card
from limelight_models.network import Answer, Network
from limelight_models.zoo.disan.disan import SIDES
from tests.kit import examples, small
from tests.kit.small import NAMES, PUBLISHED

quick = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


def answered(model: Network, tensors: dict[str, Tensor]) -> Answer:
    """In float64."""
    doubled = {name: each.double() if each.is_floating_point() else each for name, each in tensors.items()}
    answer: Answer = model(**doubled)
    return answer


def masked(card: Card) -> list[str]:
    """The masks of what a model reads; not of what forces its output."""
    return [each.mask for each in card.tensors if each.mask and each.tensor != "target_ids"]


@quick
@pytest.mark.parametrize("name", [*NAMES, *(f"{name}-uniform" for name in PUBLISHED)])
@given(data=st.data())
def test_an_instance_is_answered_the_same_in_any_company(name: str, data: st.DataObject) -> None:
    card, model = small.card(name), small.make(name)
    resembling = examples.resembling(card.description.inputs, small.data(name).test)
    rows = [card.preprocessor().row(each) for each in data.draw(st.lists(resembling, min_size=1, max_size=4))]
    alone = [answered(model, small.batch(card, [row])) for row in rows]
    batched = answered(model, small.batch(card, rows))
    for number, answer in enumerate(alone):
        if card.edges:  # graphs lie one after the other in a batch
            continue
        small.same(answer, batched, number, steps=card.generation is not None)
    for group in ("outputs", "maps", "edges") if card.edges else ():
        for each, found in getattr(batched, group).items():
            wanted = torch.cat([getattr(answer, group)[each] for answer in alone])
            if group == "edges":  # nodes are counted on
                counts = [len(row.tensors["nodes"]) for row in rows]
                before = torch.tensor([0, *counts[:-1]]).cumsum(0)
                edges = torch.tensor([len(answer.edges[each]) for answer in alone])
                wanted = wanted + before.repeat_interleave(edges)
            assert torch.allclose(found, wanted, atol=1e-12)
    normalised = {each.name for each in card.description.maps if each.normalised and each.name not in card.edges}
    for answer in alone:
        for each in normalised:
            sums = answer.maps[each].sum(3)
            assert torch.all(torch.isclose(sums, torch.ones_like(sums), atol=1e-9) | (sums == 0)), each


@pytest.mark.parametrize("name", [name for name in PUBLISHED if masked(small.card(name))])
def test_without_the_mask_padding_changes_the_answer(name: str) -> None:
    """The sabotage that the test above must notice."""
    card, model = small.card(name), small.make(name)
    rows = [card.preprocessor().row(each.instance) for each in small.data(name).test]
    tensors = small.batch(card, rows)
    unmasked = {**tensors, **{mask: torch.ones_like(tensors[mask]) for mask in masked(card)}}
    with pytest.raises(AssertionError):
        for number, row in enumerate(rows):
            alone = answered(model, small.batch(card, [row]))
            small.same(alone, answered(model, unmasked), number, steps=card.generation is not None)


def with_masks(ids: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the parts of an input, by the names of the card; draws come out as they most likely do."""
    masks = {f"{part}_mask": each != 0 for part, each in ids.items()}
    noise = {f"{part}_noise": torch.full(each.shape, 0.5) for part, each in ids.items()}
    return {f"{part}_ids": each for part, each in ids.items()} | masks | noise


def test_what_keeping_words_is_compared_with_keeps_them_all_alike() -> None:
    tensors = with_masks({side: small.text(4, seed)[None] for seed, side in enumerate(SIDES)})
    maps = small.make("rban-uniform")(**tensors | {"second_noise": torch.full((1, 4), 0.999)}).maps
    for name in ("question", "answer"):
        assert torch.allclose(maps[name], torch.full((1, 1, 1, 4), 0.25, dtype=torch.float64))


def test_words_that_a_sampler_does_not_keep_have_no_weight() -> None:
    model = small.make("rban")
    tensors = with_masks({side: small.text(4, seed)[None] for seed, side in enumerate(SIDES)})
    every, none, some = torch.zeros(1, 4), torch.ones(1, 4), torch.tensor([[0.0, 1.0, 0.0, 1.0]])
    for noise, kept in ((every, 4), (some, 2), (none, 0)):
        answer = model(**tensors | {"second_noise": noise, "first_noise": every})
        weights = answer.maps["answer"][0, 0, 0]
        assert torch.equal(weights > 0, noise[0] == 0) and torch.isfinite(answer.outputs["logits"]).all()
        assert float(weights.sum()) == pytest.approx(float(kept > 0))
        assert not answer.maps["affinity"][0, 0][:, noise[0] == 1].any()
        assert float(answer.maps["question"].sum()) == pytest.approx(1)


def test_the_directions_of_disan_look_back_and_ahead_and_never_at_the_token_itself() -> None:
    ids = small.text(4, 1)[None]
    maps = small.make("disan")(first_ids=ids, first_mask=ids != 0, second_ids=ids, second_mask=ids != 0).maps
    before, after = (maps[f"first.{name}"][0, 0].sum(-1) > 0 for name in ("forward", "backward"))
    assert torch.equal(before, torch.ones(4, 4).tril(-1).bool())
    assert torch.equal(after, torch.ones(4, 4).triu(1).bool())
    sums = maps["first.source"][0, 0, 0].sum(0)
    assert torch.allclose(sums, torch.ones_like(sums))


def test_a_sentence_of_padding_is_zeros_and_no_nan() -> None:
    model = small.make("han")
    ids = torch.zeros(1, 2, 3, dtype=torch.int64)
    ids[0, 0] = 5
    answer = model(token_ids=ids, token_mask=ids != 0)
    assert torch.isfinite(answer.outputs["logits"]).all()
    assert not answer.maps["word"][0, 0, 1].any() and answer.maps["sentence"][0, 0, 0].tolist() == [1.0, 0.0]
