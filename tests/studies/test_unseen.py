"""Generated examples for the demo models: none that was learned, and the same places found as in training."""

import random

import numpy as np

from limelight.labels import Grid, LabelSet, Region
from limelight_bundle.values import Text
from limelight_models.data import numbers
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Box, Gold, Span
from limelight_models.training.correctness import asked
from research.unseen.examples import _coarse, axis, canvases, held_out_hand, printed_hand, sent, texts


def test_what_was_learned_is_not_asked_in_capitals_either() -> None:
    train = (Example({"text": Text("Ein")}, ""),)
    learned = Dataset(name="", licence="", summary="", train=train, dev=(), test=())
    said = iter(["eins", "ein", "EIN", "zwei", "drei"])
    found = texts(lambda chance: Example({"text": Text(next(said))}, ""), learned, 2)
    assert [each.instance["text"] for each in found] == [Text("eins"), Text("zwei")]


def test_a_caller_sends_what_is_asked_and_not_the_answer() -> None:
    example = numbers.example(random.Random(0))
    assert set(sent(example)) == {"text"}
    (question,) = canvases(held_out_hand(), 1)
    assert set(sent(question)) == {"image", "question"}


def test_printed_digits_are_drawn_on_a_canvas_in_their_boxes() -> None:
    for example in canvases(printed_hand(), 20):
        assert example.gold or example.label == "no"


def test_a_fine_picture_becomes_as_coarse_and_as_bright_as_those_of_the_canvas() -> None:
    pixels = np.zeros((28, 28), np.uint8)
    pixels[4:24, 12:15] = 200
    found = _coarse(pixels)
    assert found.shape == (8, 8) and found.max() == 255
    assert np.flatnonzero(found.any(0)).tolist() == [3, 4]


def test_the_cells_of_an_answer_are_right_where_the_digit_is() -> None:
    """Four cells of a picture of 20 x 20: the box is in the lower left one."""
    cells = LabelSet(
        "regions", "grid", ("",) * 4, inputs=("image",), grid=Grid(2, 2, (), Region(left=0, top=0, right=20, bottom=20))
    )
    asking, right = asked(Gold((Box("image", 1, 12, 8, 19),)), axis(LabelSet("one", "one", ("question",))), axis(cells))
    assert asking.tolist() == [0] and right.tolist() == [False, False, True, False]


def test_the_steps_of_an_answer_are_counted_in_the_text_that_was_put_out() -> None:
    steps = LabelSet(
        "output", "output_steps", ("4", "7", "[end]"), np.array([0, 1, 2]), np.array([1, 2, 2]),
        flags=np.array([False, False, True]),
    )  # fmt: skip
    words = LabelSet("source", "tokens", ("forty", "two"), np.array([0, 6]), np.array([5, 9]), inputs=("text",))
    gold = Gold((Span("text", 0, 5),), of=Span("target", 0, 1))
    asking, right = asked(gold, axis(steps, put_out="target"), axis(words))
    assert asking.tolist() == [0] and right.tolist() == [True, False]
