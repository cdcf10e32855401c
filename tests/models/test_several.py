"""Texts with several labels: their rows, the tree of labels, and how answers are judged."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from limelight_bundle.values import Text
from limelight_models.data import rows
from limelight_models.data.dataset import Example
from limelight_models.data.label_tree import clusters
from limelight_models.network import Answer, Network
from limelight_models.tasks.several import Several
from limelight_models.tasks.task import Batch
from tests.kit import small

LABELS = ("a", "b", "c", "d")


class Fixed(Network):
    """Gives the log-odds that go in."""

    def forward(self, **tensors: Tensor) -> Answer:
        return Answer({"logits": tensors["scores"]}, {})


class Held:
    """Two examples of which the scores are known."""

    examples: Sequence[Example] = tuple(Example({"text": Text("x")}, labels=each) for each in (("a", "c"), ("d",)))

    def in_order(self) -> Iterator[Batch]:
        scores = torch.tensor([[3.0, 2.0, 1.0, 0.0], [3.0, 2.0, 1.0, 0.0]])
        yield Batch({"scores": scores}, (0, 1), torch.zeros(2, 4))


@pytest.mark.parametrize(("labels", "wanted"), [(["b", "a"], ("a", "b")), ("a; b;a", ("a", "b")), ("one", ("one",))])
def test_labels_are_a_list_or_names_with_semicolons_between(labels: Any, wanted: tuple[str, ...]) -> None:
    assert rows.several({"text": "words", "labels": labels}).labels == wanted


@pytest.mark.parametrize("labels", [None, [], "", "a;;b", [""], [1], {"a": 1}])
def test_a_text_without_labels_is_refused(labels: Any) -> None:
    with pytest.raises(ValueError, match="labels"):
        rows.several({"text": "words", "labels": labels})


def test_labels_of_alike_texts_are_in_one_cluster_and_clusters_are_of_about_one_size() -> None:
    texts = [f"{words} {words[0]}{number}" for words in ("sea boat", "hill path") for number in range(3)]
    held = [[0], [2], [4], [1], [3], [5]]
    assert clusters(texts, held, 6, 3) == (0, 1, 0, 1, 0, 1)
    parents = clusters(texts, held, 6, 2)
    assert sorted(parents.count(each) for each in set(parents)) == [1, 1, 2, 2]
    assert all(parents[a] != parents[b] for a in (0, 2, 4) for b in (1, 3, 5))
    assert clusters(texts, held, 6, 6) == (0,) * 6


def test_precision_is_the_share_of_right_ones_among_the_most_probable() -> None:
    training = [Example({"text": Text("x")}, labels=each) for each in (("a", "b"), ("b",), ("b", "c"), ("d",))]
    first, third = Several().judge(Fixed(), small.card("attention-xml"), Held(), training)
    assert (first.name, first.value, first.baseline) == ("precision at 1", 1 / 2, 0.0)  # a, and a; b is most frequent
    assert third.name == "precision at 3" and third.value == pytest.approx((2 + 0) / 6)
    answer = Answer({"logits": torch.zeros(2, 4)}, {})
    losses, target = Several().losses(answer, Batch({}, (0, 1), torch.eye(4)[:2]))
    assert losses.shape == target.shape == (8,) and losses.sum().item() == pytest.approx(8 * 0.6931472)
    assert Several().reader(LABELS)(Held.examples[0]).tolist() == [1, 0, 1, 0]
