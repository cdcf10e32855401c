"""Losses and figures of the tasks, on numbers that can be checked by hand."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Pair, Text
from limelight_models.cards.card import Card
from limelight_models.data.dataset import DataError, Example
from limelight_models.data.gold import Box, Gold, Span
from limelight_models.network import Answer, Network
from limelight_models.tasks.aspects import ClassifyTargets, opposed
from limelight_models.tasks.classify import Classify
from limelight_models.tasks.entities import Entities, entities
from limelight_models.tasks.forecast import Forecast
from limelight_models.tasks.segment import Segment
from limelight_models.tasks.spans import FindSpan
from limelight_models.tasks.tag import Tag
from limelight_models.tasks.task import Batch, Task

NO_CARD: Card = None  # type: ignore[assignment]  # nothing of it is read


class Says(Network):
    """Puts out what it gets."""

    def forward(self, **tensors: Tensor) -> Answer:
        return Answer(tensors, {})


class Held:
    """Examples with the answers to them, one a batch."""

    def __init__(self, task: Task, examples: Sequence[Example], labels: Sequence[str], answers: list[dict]) -> None:
        self.examples, self._answers = examples, answers
        self._targets = [task.reader(labels)(example) for example in examples]
        self._task = task

    def in_order(self) -> Iterator[Batch]:
        for index, (target, tensors) in enumerate(zip(self._targets, self._answers, strict=True)):
            yield Batch({n: torch.tensor(v) for n, v in tensors.items()}, (index,), self._task.stack([target]))


def test_classes() -> None:
    task, labels = Classify(), ("no", "yes")
    examples = [Example({}, "yes"), Example({}, "no"), Example({}, "yes")]
    held = Held(task, examples, labels, [{"logits": [[0.0, 1.0]]}, {"logits": [[0.0, 2.0]]}, {"logits": [[0.0, 0.0]]}])
    (batch, *_) = held.in_order()
    loss, terms = task.loss(Says(), batch)
    assert terms == 1 and float(loss) == pytest.approx(math.log(1 + math.exp(-1)))
    (accuracy,) = task.judge(Says(), NO_CARD, held, examples)
    assert (accuracy.value, accuracy.baseline, accuracy.name) == (1 / 3, 2 / 3, "accuracy")


def test_a_baseline_that_reads_the_question_alone() -> None:
    """Of two questions of training, one has two answers; a question that is new gets the most frequent of all."""
    task = Classify(given="question")
    asked = [("a?", "no"), ("a?", "no"), ("a?", "yes"), ("b?", "yes"), ("b?", "yes")]
    training = [Example({"question": Text(question)}, answer) for question, answer in asked]
    held_out = [("a?", "no"), ("b?", "no"), ("c?", "yes")]
    examples = [Example({"question": Text(question)}, answer) for question, answer in held_out]
    held = Held(task, examples, ("no", "yes"), [{"logits": [[0.0, 1.0]]}] * 3)
    (accuracy,) = task.judge(Says(), NO_CARD, held, training)
    assert (accuracy.value, accuracy.baseline) == (1 / 3, 2 / 3)
    assert accuracy.baseline_name == "most frequent for the question"


def test_an_example_without_a_class_has_no_loss_and_is_in_no_majority() -> None:
    task, labels = Classify(), ("no", "yes")
    batch = Batch({"logits": torch.tensor([[0.0, 1.0], [5.0, 0.0]])}, (0, 1), torch.tensor([1, -1]))
    loss, terms = task.loss(Says(), batch)
    assert terms == 2 and float(loss) == pytest.approx(math.log(1 + math.exp(-1)))
    held = Held(task, [Example({}, "yes")], labels, [{"logits": [[0.0, 1.0]]}])
    (accuracy,) = task.judge(Says(), NO_CARD, held, [Example({}), Example({}), Example({}, "no")])
    assert accuracy.baseline == 0


def test_targets_of_one_sentence_are_told_apart() -> None:
    """Three targets in the first sentence, of which two pairs differ; the second sentence is about one thing."""
    task, labels = ClassifyTargets(), ("bad", "good")
    sentence = "nice soup , dry fish . hard bread".split()
    examples = [
        Example(
            {
                "left": Text(" ".join(sentence[:n]) or "."),
                "target": Text(sentence[n]),
                "right": Text(" ".join(sentence[n + 1 :]) or "."),
            },
            label,
        )
        for n, label in ((1, "good"), (4, "bad"), (7, "bad"))
    ]
    examples.append(Example({"pair": Pair("how was the fish ?", "dry fish")}, "bad"))
    held = Held(task, examples, labels, [{"logits": [[float(n), 1.0]]} for n in (0, 2, 0, 2)])
    accuracy, apart = task.judge(Says(), NO_CARD, held, examples)
    assert (accuracy.value, apart.value, apart.baseline, apart.name) == (3 / 4, 1 / 2, 0, "told apart")
    asked = [Example({"pair": Pair("how was it ?", " ".join(sentence))}, label) for label in labels]
    assert list(opposed([*examples, *asked])) == [(0, 1), (0, 2), (0, 4), (1, 5), (2, 5), (4, 5)]


@pytest.mark.parametrize("joined", [False, True])
def test_tags_of_parts_whose_class_is_not_known_count_nowhere(joined: bool) -> None:
    task, labels = Tag(joined=joined), ("a", "b")
    examples = [Example({}, labels=("a", "", "b")), Example({}, labels=("b",))]
    targets = task.stack([task.reader(labels)(each) for each in examples])
    assert targets.tolist() == ([0, -1, 1, 1] if joined else [[0, -1, 1], [1, -1, -1]])
    scores = torch.zeros(*targets.shape, 2)
    scores[..., 0] = 3.0  # says "a" everywhere
    loss, terms = task.loss(Says(), Batch({"logits": scores}, (0, 1), targets))
    assert terms == 3
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-3)) + 2 * math.log(1 + math.exp(3)))
    answers = [{"logits": scores[:3].tolist() if joined else scores[:1].tolist()}]
    held = Held(task, examples[:1], labels, answers)
    (accuracy,) = task.judge(Says(), NO_CARD, held, [Example({}, labels=("b", "b", "a"))])
    assert (accuracy.value, accuracy.baseline) == (0.5, 0.5)


def test_tags_of_a_text_that_was_cut_are_those_of_what_is_left() -> None:
    task = Tag()
    targets = task.stack([np.array([0, 1, 1, 0])])
    loss, terms = task.loss(Says(), Batch({"logits": torch.zeros(1, 2, 2)}, (0,), targets))
    assert terms == 2 and float(loss) == pytest.approx(2 * math.log(2))


def test_entities_are_right_as_wholes() -> None:
    tags = ["O", "B-a", "I-a", "B-a", "I-b", "O", "I-b"]
    assert list(entities(tags)) == [("a", 1, 3), ("a", 3, 4), ("b", 4, 5), ("b", 6, 7)]
    task, labels = Entities(), ("B-a", "B-b", "I-a", "O")
    example, shorter = Example({}, labels=("B-a", "I-a", "O", "B-b")), Example({}, labels=("B-b", "O"))
    said = [["B-a", "O", "B-a", "B-b"], ["B-b"]]  # one cut short, one too many; the second was cut off
    answers = [{"logits": [[[float(label == tag) for label in labels] for tag in row]]} for row in said]
    held = Held(task, [example, shorter], labels, answers)
    found = {each.name: each.value for each in task.judge(Says(), NO_CARD, held, [example, Example({}, labels=labels)])}
    assert (found["entity precision"], found["entity recall"]) == (2 / 4, 2 / 3)
    assert found["entity F1"] == 4 / 7
    # By which weights are kept, whatever the loss.
    assert task.standing(Says(), held, [example, Example({}, labels=labels)], 0.1) == 1 - 4 / 7
    assert found["accuracy"] == 3 / 5
    nothing = [{"logits": [[[float(label == "O") for label in labels] for _ in row]]} for row in said]
    none = Held(task, [example, shorter], labels, nothing)
    both = [task.standing(Says(), none, [example, Example({}, labels=labels)], loss) for loss in (0.1, 0.2)]
    assert 1 < both[0] < both[1]  # a network that finds none yet is not taken for one that learns no more


def test_cells_of_a_picture() -> None:
    # 2 x 4 cells of 10 x 10 pixels: a small object on the left, a large one on the right.
    task, labels = Segment(grid=(2, 4), size=(20, 40)), ("ground", "two")
    truth = ("two", "ground", "two", "two", "ground", "ground", "two", "")
    said = [1, 0, 1, 0, 1, 0, 1, 1]
    boxes = (Box("image", 0, 0, 9, 9), Box("image", 21, 0, 40, 20))
    example = Example({}, labels=truth, gold=(Gold(boxes),))
    held = Held(task, [example], labels, [{"logits": [[[1.0 - each, float(each)] for each in said]]}])
    found = {each.name: each.value for each in task.judge(Says(), NO_CARD, held, [example])}
    # Of the two: right 3; said or true 5 (one missed, one too many).
    assert found["intersection over union"] == 3 / 5
    assert found["accuracy"] == 5 / 7
    assert found["intersection over union, small objects"] == 1.0
    assert found["intersection over union, large objects"] == 2 / 3


def test_spans() -> None:
    """Characters become tokens; of two right answers the better counts; an answer that was cut off costs nothing."""
    task = FindSpan(over="words")
    tokens = Labels("words", 0, 4, starts=(0, 4, 8, 12), ends=(3, 7, 11, 15))
    answers = Example({}, spans=(Span("text", 4, 11), Span("text", 8, 11), Span("text", 12, 40)))
    target = task.place(task.reader(())(answers), Row({}, {}, {"words": tokens}))
    assert target.tolist() == [[1, 2], [2, 2], [-1, -1]]
    says = {"start_scores": torch.zeros(1, 4), "end_scores": torch.tensor([[0.0, 0.0, 0.0, 9.0]])}
    says["start_scores"][0, 2] = 9.0
    batch = Batch(says, (0,), task.stack([target]))
    loss, terms = task.loss(Says(), batch)
    start, end = (-says[name].log_softmax(-1)[0] for name in ("start_scores", "end_scores"))
    assert terms == 1 and float(loss) == pytest.approx(float(start[1] + end[2]))
    held = OneBatch([answers], batch)
    exact, overlap = task.judge(Says(), NO_CARD, held, [])
    assert exact.value == 0 and overlap.value == pytest.approx(2 / 3)  # words 2 to 3 beside word 2
    one = Batch({**says, "end_scores": says["start_scores"]}, (0,), batch.target)  # word 2 alone
    assert [each.value for each in task.judge(Says(), NO_CARD, OneBatch([answers], one), [])] == [1, 1]
    cut = task.stack([np.array([[-1, -1]])])
    assert float(task.loss(Says(), Batch(says, (0,), cut))[0]) == 0


class OneBatch:
    """Examples with one batch of all."""

    def __init__(self, examples: Sequence[Example], batch: Batch) -> None:
        self.examples, self._batch = examples, batch

    def in_order(self) -> Iterator[Batch]:
        yield self._batch


def test_a_forecast_is_judged_by_how_far_it_is_away_beside_a_signal_that_stays() -> None:
    task, examples = Forecast(), [Example({}, numbers=np.array([[2.0, 4.0], [1.0, 1.0]], np.float32))]
    held = Held(task, examples, (), [{"forecast": [[2.0, 3.0], [1.0, 4.0]], "nodes": [[9.0, 2.0], [9.0, 1.0]]}])
    (batch,) = held.in_order()
    loss, terms = task.loss(Says(), batch)
    assert (float(loss), terms) == (4, 4)
    whole, last = task.judge(Says(), NO_CARD, held, examples)
    assert (whole.value, whole.baseline, last.value, last.baseline) == (1, 0.5, 2, 1)
    with pytest.raises(DataError, match="no numbers to be forecast"):
        task.reader(())(Example({}))
