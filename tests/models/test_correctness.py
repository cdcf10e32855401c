"""Weight of maps on the right places, with maps that are given, so that the figures are known."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from limelight_bundle.values import Text
from limelight_models.cards.card import Card
from limelight_models.data import transductions
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span, word_spans
from limelight_models.index import recipe
from limelight_models.network import Answer, Network
from limelight_models.training.batches import Batches
from limelight_models.training.correctness import Tally, add, correctness, metrics
from limelight_models.training.heads import specialisation

MAP = "decoder.cross"


class Looks(Network):
    """Looks where it is told: [batch, head, output, source] from the masks of both."""

    def __init__(self, weights: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self._weights = weights

    def forward(self, **tensors: Tensor) -> Answer:
        return Answer({}, {MAP: self._weights(tensors["target_mask"], tensors["source_mask"])})


def straight(output: Tensor, source: Tensor) -> Tensor:
    """Each output at the same place of the source; the end token at the last."""
    eye = torch.eye(output.shape[1], source.shape[1])
    return eye.expand(len(output), 1, -1, -1)


def even(output: Tensor, source: Tensor) -> Tensor:
    weights = source[:, None, None].double() / source.sum(1)[:, None, None, None]
    return weights.expand(-1, 1, output.shape[1], -1)


def halves(output: Tensor, source: Tensor) -> Tensor:
    """Two heads: one looks straight, one everywhere."""
    return torch.cat([straight(output, source), even(output, source)], 1)


def card_and_parts(made: Dataset) -> tuple[Card, Batches]:
    chosen = recipe("bahdanau")
    blueprint = chosen.prepare(made, chosen.presets["tiny"])
    card = chosen.card(chosen.build(blueprint), blueprint)
    return card, Batches(card, chosen.task, made.test, labels=(), batch_size=4)


@pytest.mark.parametrize(
    ("rule", "looks", "share"),
    [("copy", straight, 1.0), ("copy", even, None), ("reverse", straight, 0.0)],
)
def test_share_of_weight_through_tokens_and_padding(
    rule: str, looks: Callable[[Tensor, Tensor], Tensor], share: float | None
) -> None:
    made = transductions.dataset(rule, training=20, held_out=10, lengths=(4, 8))
    odd = [each for each in made.test if len(text(each)) % 2]  # reversed, one of these has its middle in place
    made = replace(made, test=tuple(each for each in made.test if each not in odd))
    assert len({len(text(each)) for each in made.test}) > 1
    card, parts = card_and_parts(made)
    weight, strongest = correctness(Looks(looks), card, parts)
    assert weight.name == f"weight on the right place, {MAP}" and strongest.name.startswith("strongest")
    equal = np.mean([1 / len(text(each)) for each in made.test for _ in each.gold])
    assert weight.baseline == pytest.approx(equal)
    assert weight.value == pytest.approx(equal if share is None else share)
    # Where all weights are equal, which one counts as the strongest is chance.
    assert strongest.value == pytest.approx(equal if share is None else share)


def test_equal_weights_are_over_the_keys_that_a_query_has() -> None:
    tally = Tally()
    there = np.array([[True, True, False, False], [False, False, True, True]])
    tally.add(np.where(there, 0.5, 0.0)[np.newaxis], np.array([True, False, False, False]), there)
    weight = next(metrics("m", {0: tally}))
    assert weight.value == weight.baseline == (0.5 + 0) / 2


def test_every_head_is_said_beside_the_mean() -> None:
    made = transductions.dataset("copy", training=20, held_out=3, lengths=(4, 4))
    card, parts = card_and_parts(made)
    found = {each.name: each.value for each in correctness(Looks(halves), card, parts)}
    assert found[f"weight on the right place, {MAP}"] == pytest.approx((1 + 0.25) / 2)
    assert found[f"weight on the right place, {MAP}, best head"] == pytest.approx(1)
    heads = [found[f"weight on the right place, {MAP}, head {number}"] for number in range(2)]
    assert sorted(heads) == [pytest.approx(0.25), pytest.approx(1)]


def test_what_each_head_does_is_told() -> None:
    made = transductions.dataset("copy", training=20, held_out=10, lengths=(4, 8))
    card, parts = card_and_parts(made)
    assert specialisation(Looks(halves), card, parts) == []  # the card knows of one head
    card.description.maps[0].heads = 2
    straight_, even_ = specialisation(Looks(halves), card, parts)
    # The end is a step more than there are letters, and looks at nothing: of n + 1 queries n look straight.
    sizes = np.array([len(text(each)) for each in made.test])
    steps = (sizes + 1).sum()
    assert (straight_.bits, straight_.before, straight_.after, straight_.right) == (0, 0, 0, 1)
    assert straight_.at == pytest.approx(sizes.sum() / steps)
    assert even_.bits == pytest.approx((np.log2(sizes) * (sizes + 1)).sum() / steps)
    assert even_.before == pytest.approx(len(sizes) / steps)  # the places behind the first: n of 1 / n
    assert even_.right == pytest.approx(np.mean([1 / size for size in sizes for _ in range(size)]))


def test_nothing_is_said_where_nothing_is_known() -> None:
    card, parts = card_and_parts(transductions.dataset("copy", training=20, held_out=3))
    parts.examples = [Example(each.instance) for each in parts.examples]
    assert correctness(Looks(straight), card, parts) == []


def text(example: Example) -> str:
    value = example.instance["text"]
    assert isinstance(value, Text)
    return value.text


def test_the_alignment_error_rate_is_over_words() -> None:
    # Words a b c -> x y; x is surely a, possibly b; y is surely c. Tokens are the letters of words of two.
    source, target = word_spans("text", "aa bb cc"), word_spans("target", "xx yy")
    gold = (
        Gold((source[0],), of=target[0], possible=(source[0], source[1])),
        Gold((source[2],), of=target[1], possible=(source[2],)),
    )
    example = Example({"text": Text("aa bb cc"), "target": Text("xx yy")}, gold=gold)

    def letters(spans: list[Span], name: str) -> SimpleNamespace:
        places = [place for span in spans for place in range(span.start, span.end)]
        return SimpleNamespace(
            size=len(places), starts=places, ends=[each + 1 for each in places], special=(), input_indices=(),
            inputs=(name,), grid=None,
        )  # fmt: skip

    weights = np.zeros((1, 4, 6))
    weights[0, 0] = [0, 0, 0.6, 0, 0.4, 0]  # x looks at b: possible, not sure
    weights[0, 1] = [0.3, 0, 0.3, 0.1, 0.3, 0]
    weights[0, 2] = weights[0, 3] = [0.2, 0.2, 0, 0, 0.3, 0.3]  # y at c: its pieces together have most
    tally = Tally()
    add(tally, weights, np.ones((4, 6), bool), letters(target, "target"), letters(source, "text"), example)
    *_, rate = metrics("m", {0: tally})
    # |A| = 2, |S| = 2, |A and S| = 1, |A and P| = 2
    assert rate.name == "alignment error rate, m" and rate.value == pytest.approx(1 - (1 + 2) / (2 + 2))
    weight = next(metrics("m", {0: tally})).value
    assert weight == pytest.approx((np.mean([0.6, 0.7]) + 0.6) / 2)
