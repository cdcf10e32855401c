"""Loss of looking elsewhere, with maps that are given; a network learns to look where it is told."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from limelight_models.cards.card import Card
from limelight_models.data import moves, transductions
from limelight_models.data.dataset import DataError, Dataset
from limelight_models.data.gold import Gold, Span
from limelight_models.index import recipe
from limelight_models.network import Answer, Network
from limelight_models.training.batches import Batches
from limelight_models.training.correctness import asked, correctness, looks
from limelight_models.training.session import Order, begin, train
from limelight_models.training.stop import Stop
from limelight_models.training.supervision import SupervisedAttention
from tests.models.test_correctness import Looks, card_and_parts, even, halves, straight, text
from tests.models.test_data_slips import planted

WEIGHT = 0.5


def cost(network: Network, card: Card, parts: Batches) -> tuple[float, int]:
    """Of all examples, and how many things they ask for."""
    supervision = SupervisedAttention(card, parts.examples, WEIGHT)
    with torch.no_grad():
        total = sum(float(supervision(network(**batch.tensors), batch)) for batch in parts.in_order())
    return total, sum(len(each.gold) for each in parts.examples)


@pytest.mark.parametrize(
    ("look", "share"),
    [(straight, lambda keys: 1.0), (even, lambda keys: 1 / keys), (halves, lambda keys: (1 + 1 / keys) / 2)],
)
def test_it_costs_the_logarithm_of_the_share(
    look: Callable[[Tensor, Tensor], Tensor], share: Callable[[int], float]
) -> None:
    made = transductions.dataset("copy", training=1, held_out=30)
    card, parts = card_and_parts(made)
    keys = [(len(text(example)), len(example.gold)) for example in made.test]
    expected = -WEIGHT * sum(golds * np.log(share(count)) for count, golds in keys)
    assert cost(Looks(look), card, parts)[0] == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_what_has_no_weight_at_all_costs_much_and_not_everything() -> None:
    made = transductions.dataset("copy", training=1, held_out=10)
    card, parts = card_and_parts(made)
    nowhere = Looks(lambda output, source: torch.zeros(len(output), 1, output.shape[1], source.shape[1]))
    total, golds = cost(nowhere, card, parts)
    assert total == pytest.approx(WEIGHT * golds * -np.log(torch.finfo(torch.float32).tiny), rel=1e-4)


def test_gates_cost_their_cross_entropy() -> None:
    """A gate that opens a little at the right places alone has all of the weight, and is still far from open."""
    made = transductions.dataset("copy", training=1, held_out=30)
    card, parts = card_and_parts(made)
    card.description.maps[0].normalised = False
    little = Looks(lambda output, source: 0.25 * straight(output, source))
    total, golds = cost(little, card, parts)
    assert total == pytest.approx(-WEIGHT * golds * np.log(0.25), rel=1e-5)
    total, golds = cost(Looks(even), card, parts)
    counts = [(len(text(example)), len(example.gold)) for example in made.test]
    expected = [of * -(np.log(1 / keys) + (keys - 1) * np.log(1 - 1 / keys)) for keys, of in counts if keys > 1]
    assert total == pytest.approx(WEIGHT * sum(expected), rel=1e-4)


class Passes(Network):
    """Opens in each pass the gate of one fact, by its number in the story, a little."""

    def __init__(self, facts: Sequence[int]) -> None:
        super().__init__()
        self.facts = facts

    def forward(self, **tensors: Tensor) -> Answer:
        gates = torch.zeros(1, 1, len(self.facts), tensors["token_ids"].shape[1])
        gates[0, 0, range(len(self.facts)), self.facts] = 0.25
        return Answer({}, {"passes": gates})


@pytest.mark.parametrize("backwards", [False, True])
def test_a_pass_is_taught_the_fact_that_the_one_before_leads_to(backwards: bool) -> None:
    made = moves.dataset()
    chosen = recipe("dmn")
    blueprint = chosen.prepare(made, chosen.presets["tiny"])
    card = chosen.card(chosen.build(blueprint), blueprint)
    supervision = SupervisedAttention(card, made.test, WEIGHT)
    chains = [[key.sentence for key in example.gold[0].keys if isinstance(key, Span)] for example in made.test]
    opened, shut = -np.log(0.25), -np.log(torch.finfo(torch.float32).tiny) - np.log(0.75)
    for batch in Batches(card, chosen.task, made.test, labels=blueprint.labels, batch_size=1).in_order():
        first, last = chains[batch.indices[0]][0] or 0, chains[batch.indices[0]][-1] or 0
        looks = Passes([last, first] if backwards else [first, last])
        expected = shut if backwards and first != last else opened
        assert float(supervision(looks(**batch.tensors), batch)) == pytest.approx(2 * WEIGHT * expected, rel=1e-4)
    assert {len(each) for each in chains} == {1, 2}


def code(count: int) -> tuple[Network, Card, Batches, Dataset]:
    """An untrained model of lines of code: its words are nested in lines."""
    torch.manual_seed(0)
    made = Dataset(
        name="slips", licence="none", summary="", train=tuple(planted()), dev=(), test=tuple(planted())[:count]
    )
    chosen = recipe("han-code")
    blueprint = chosen.prepare(made, replace(chosen.presets["tiny"], vocabulary=200))
    network = chosen.build(blueprint).eval()
    card = chosen.card(network, blueprint)
    return network, card, Batches(card, chosen.task, made.test, labels=blueprint.labels, batch_size=4), made


def test_keys_that_are_nested_are_those_of_the_query() -> None:
    network, card, parts, _ = code(12)
    expected = 0.0
    for index, row, found in looks(network, card, parts, card.description.maps):
        for each in card.description.maps:
            weights, there = found[each.name]
            for gold in parts.examples[index].gold:
                asking, right = asked(gold, row.labels[each.query_labels], row.labels[each.key_labels])
                shares = [weights[:, query, right].sum(-1).mean() for query in asking if (there[query] & right).any()]
                expected -= WEIGHT * float(np.sum(np.log(shares)))
    assert expected > 0
    assert cost(network, card, parts)[0] == pytest.approx(expected, rel=1e-4)


def test_a_network_learns_to_look_there() -> None:
    network, card, parts, made = code(12)
    supervision = SupervisedAttention(card, made.test, WEIGHT)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    before, _ = cost(network, card, parts)
    for _ in range(10):
        for batch in parts.in_order():
            optimizer.zero_grad()
            supervision(network(**batch.tensors), batch).backward()
            optimizer.step()
    assert cost(network, card, parts)[0] < 0.7 * before


def test_a_run_that_supervises_says_so_in_its_bundle(tiny: None, tmp_path: Path) -> None:
    order = Order(model="bahdanau", out=tmp_path, data="builtin:copy", changes={"supervision": WEIGHT})
    run, _ = begin(order)
    assert run.data["summary"].endswith("Where to look was part of what was learned.")


def test_a_run_on_data_that_do_not_say_where_to_look_is_not_begun(tiny: None, documents: Path, tmp_path: Path) -> None:
    order = Order(model="han", out=tmp_path / "run", data=str(documents), changes={"supervision": WEIGHT})
    with pytest.raises(DataError, match="leave --supervision out"):
        train(order, stop=Stop(), told=lambda progress, batches: None, said=lambda text: None)


def test_data_that_do_not_say_where_to_look_supervise_nothing() -> None:
    made = transductions.dataset("copy", training=1, held_out=3)
    card, parts = card_and_parts(made)
    elsewhere = (Gold((Span("another", 0, 1),)),)
    for gold in ((), elsewhere):
        with pytest.raises(DataError, match="does not say where"):
            SupervisedAttention(card, [replace(each, gold=gold) for each in parts.examples], WEIGHT)
    assert correctness(Looks(even), card, parts)
