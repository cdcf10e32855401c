"""The canvas world: what is said of a picture is so, and the gold is where it says."""

import io
import json
import random
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from limelight_bundle.values import Array, Image, Text
from limelight_models.data import row_files, rows
from limelight_models.data.canvas import captions, films, masks, questions
from limelight_models.data.canvas.relations import clear, possible, the_one
from limelight_models.data.canvas.world import (
    DIGITS,
    SIZE,
    WORDS,
    Digit,
    Scene,
    hands,
    paint,
    plan,
    touch,
    with_article,
)
from limelight_models.data.dataset import DataError, Example
from limelight_models.data.folder import load
from limelight_models.data.gold import Box, Span
from limelight_models.data.images import png

TRAIN, DEV, TEST = hands()


def scenes(count: int, seed: int = 0) -> list[Scene]:
    chance = random.Random(seed)
    return [paint(plan(TRAIN, chance), TRAIN, chance) for _ in range(count)]


def at(value: int, column: float, row: float) -> Digit:
    return Digit(value, Box("image", column - 5, row - 5, column + 5, row + 5))


def text(example: Example, name: str) -> str:
    value = example.instance[name]
    assert isinstance(value, Text)
    return value.text


def pixels(example: Example) -> Array:
    value = example.instance["image"]
    assert isinstance(value, Image)
    return np.asarray(Picture.open(io.BytesIO(value.data)))


def test_pictures_hold_two_to_five_digits_that_differ_and_do_not_touch() -> None:
    found = scenes(60)
    assert {len(each.digits) for each in found} == set(range(DIGITS[0], DIGITS[1] + 1))
    for made in found:
        assert made.pixels.shape == (SIZE, SIZE) and made.pixels.dtype == np.uint8
        assert len({each.value for each in made.digits}) == len(made.digits)
        for number, one in enumerate(made.digits):
            assert not any(touch(one.box, other.box, 1) for other in made.digits[:number])


def test_ink_lies_in_the_boxes_and_stands_out_of_the_ground() -> None:
    for made in scenes(30):
        ground = np.median(made.pixels)
        for number, each in enumerate(made.digits):
            rows_, columns = np.nonzero(made.ink == number)
            assert each.box.top <= rows_.min() and rows_.max() < each.box.bottom
            assert each.box.left <= columns.min() and columns.max() < each.box.right
            assert rows_.max() - rows_.min() >= 0.6 * (each.box.bottom - each.box.top)
            assert abs(made.pixels[made.ink == number].astype(float) - ground).mean() > 40
    polarity = [np.median(made.pixels) > 127 for made in scenes(60)]
    assert 10 < sum(polarity) < 50


def test_no_handwritten_digit_is_in_two_parts_and_the_seed_decides_all() -> None:
    seen = [{each.pixels.tobytes() for samples in hand.samples for each in samples} for hand in (TRAIN, DEV, TEST)]
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    assert all(len(hand.samples) == 10 and min(map(len, hand.samples)) > 15 for hand in (TRAIN, DEV, TEST))
    for make in (captions.dataset, questions.dataset):
        assert make(seed=1, training=4, held_out=2) == make(seed=1, training=4, held_out=2)
        assert make(seed=1, training=4, held_out=2).fingerprint != make(seed=2, training=4, held_out=2).fingerprint


def test_what_is_left_of_what() -> None:
    two, seven, four = at(2, 10, 10), at(7, 30, 12), at(4, 24, 23)
    assert clear(two, seven, "left of") and clear(seven, two, "right of") and not possible(two, seven, "above")
    assert possible(two, four, "left of") and possible(two, four, "above") and not clear(two, four, "above")
    assert the_one([two, seven], two, "right of") == seven
    assert the_one([two, seven, four], two, "right of") is None  # the four could be as well
    assert the_one([two, seven], two, "below") is None


def test_a_caption_names_digits_from_left_to_right_as_they_stand() -> None:
    assert captions.caption([at(3, 8, 8), at(7, 30, 9), at(8, 35, 30)]) == "a three left of a seven above an eight"
    assert captions.caption([at(3, 8, 30), at(7, 12, 9)]) == "a three below a seven"
    assert captions.caption([at(3, 8, 8), at(7, 20, 20)]) is None  # diagonal
    assert captions.caption([at(3, 8, 8), at(7, 9, 30)]) is None  # neither is to the left


def test_names_in_captions_look_at_their_digits() -> None:
    for each in captions.dataset(training=30, held_out=1).train:
        written = text(each, "target")
        named = []
        for gold in each.gold:
            assert isinstance(gold.of, Span) and gold.of.input == "target"
            (box,) = gold.keys
            assert isinstance(box, Box)
            named.append((written[gold.of.start : gold.of.end], box))
        assert [word for word, _ in named] == [word for word in written.split() if word in WORDS]
        lefts = [(box.left + box.right) / 2 for _, box in named]
        assert all(b - a >= 3 for a, b in pairwise(lefts))


@pytest.mark.parametrize("kind", questions.KINDS)
def test_questions_are_answered_by_what_they_look_at(kind: object) -> None:
    chance = random.Random(5)
    asked = 0
    while asked < 10:
        planned = plan(TRAIN, chance)
        found = kind(planned.digits, chance)  # type: ignore[operator]
        if found is None:
            continue
        asked += 1
        question, answer, boxes, named = found
        by_box = {each.box: each.word for each in planned.digits}
        seen = [by_box[box] for box in boxes]
        assert all(phrase in question for phrase in named)
        assert all(phrase in ("the digit", digit.word) for phrase, digit in named.items())
        match question.split():
            case ["how", *_]:
                assert WORDS.index(answer) == len(planned.digits) == len(boxes)
            case ["is", "there", _, word]:
                assert (answer == "yes") == (word.rstrip("?") in by_box.values()) == bool(boxes)
            case _:
                assert seen == [answer]


def test_two_steps_go_over_the_digit_between() -> None:
    digits = (at(2, 20, 36), at(7, 6, 36), at(4, 6, 8))
    made = (questions.two_steps(digits, random.Random(seed)) for seed in range(200))
    found = {each[0]: each[1:] for each in made if each is not None}
    answer, boxes, named = found["what is above the digit left of the two?"]
    assert answer == "four" and boxes == (digits[2].box,) and named == {"two": digits[0], "the digit": digits[1]}


def test_questions_have_every_answer_and_their_own_looks() -> None:
    made = questions.dataset(training=150, held_out=1)
    assert set(made.labels) <= {*WORDS, "yes", "no"} and len(made.labels) >= 10
    asked = [each for each in made.train if text(each, "question").startswith("what")]
    assert all(each.gold[0].of is None and len(each.gold) >= 2 for each in asked)
    assert pixels(made.train[0]).shape == (SIZE, SIZE)
    assert with_article("eight") == "an eight"


def test_pictures_beside_lines_or_in_an_archive(tmp_path: Path) -> None:
    drawn = png(np.zeros((4, 4), np.uint8))
    (tmp_path / "a.png").write_bytes(drawn.data)
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        archive.writestr("test/b.png", drawn.data)
    lines = [
        {"image": "a.png", "sentence": "there is a square", "label": True},
        {"image": "test/b.png", "question": "what is it?", "answer": "two"},
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    found = row_files.read(path, rows.QUESTIONS)
    assert [(text(each, "question"), each.label) for each in found] == [
        ("there is a square", "true"), ("what is it?", "two"),
    ]  # fmt: skip
    assert all(each.instance["image"] == drawn for each in found)
    (tmp_path / "c.tsv").write_text("a.png\ta square\n" * 5)
    assert load(tmp_path / "c.tsv", rows.CAPTIONS).train[0].instance == {"image": drawn, "target": Text("a square")}
    for wrong in ("c.png", "../a.png"):
        path.write_text(json.dumps({**lines[0], "image": wrong}))
        with pytest.raises(DataError, match=f"line 1: the picture '{wrong}' is n"):
            row_files.read(path, rows.QUESTIONS)


def test_cells_of_a_mask_are_those_of_the_ink() -> None:
    chance = random.Random(3)
    made = paint(plan(TRAIN, chance), TRAIN, chance)
    owners = masks.owners(made, 2)
    assert owners.shape == (SIZE // 2, SIZE // 2)
    for row, column in ((0, 0), (5, 7), (12, 20)):
        block = made.ink[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        wanted = {number for number in range(len(made.digits)) if (block == number).mean() >= 1 / 3}
        assert owners[row, column] in (wanted or {-1})
    assert set(np.unique(owners)) == {-1, *range(len(made.digits))}
    data = masks.dataset(seed=2, training=5, held_out=2, named=True)
    assert len(data.train[0].labels) == (SIZE // 2) ** 2 and set(data.labels) <= {masks.GROUND, *WORDS}
    assert masks.dataset(seed=2, training=5, held_out=2).labels == (masks.DIGIT, masks.GROUND)
    with pytest.raises(ValueError, match="cells of 5 pixels do not fill"):
        masks.dataset(cell=5)


def test_a_cue_says_which_digit_counts() -> None:
    made = masks.dataset(seed=2, training=40, held_out=2, cued=True, digits=(2, 3))
    assert made == masks.dataset(seed=2, training=40, held_out=2, cued=True, digits=(2, 3))
    chance, seen = random.Random(4), set[bytes]()
    for _ in range(40):
        planned = masks.with_cue(TRAIN, chance, (2, 3))
        cue, counting, *others = planned.digits
        assert cue.value == counting.value not in [each.value for each in others]
        assert (cue.box.left, cue.box.top) == (1, 1) and max(cue.box.right, cue.box.bottom) <= 12
        assert not any(touch(cue.box, each.box, 1) for each in planned.digits[1:])
        seen |= {planned.samples[0].pixels.tobytes()}
    assert len(seen) > 20  # by any hand
    for each in made.train:
        ((box,),) = (gold.keys for gold in each.gold)
        assert isinstance(box, Box)
        rows_, columns = np.nonzero(np.array(each.labels).reshape(SIZE // 2, SIZE // 2) == masks.DIGIT)
        assert box.top // 2 <= rows_.min() and rows_.max() < -(-box.bottom // 2)
        assert box.left // 2 <= columns.min() and columns.max() < -(-box.right // 2)
        assert box.top >= 12 or box.left >= 12  # neither the cue nor what it is told by


def test_relations_of_relations_are_held_out() -> None:
    made = questions.dataset(seed=1, training=60, held_out=20, relations=True)
    assert made == questions.dataset(seed=1, training=60, held_out=20, relations=True)
    two = [["the digit" in text(each, "question") for each in part] for part in (made.train, made.dev, made.test)]
    assert all(two[1]) and all(two[2]) and 15 < sum(two[0]) < 45
    asked = [text(each, "question").split()[0] for part in (made.train, made.dev, made.test) for each in part]
    assert set(asked) == {"what"} and set(made.labels) <= set(WORDS)


def test_actors_of_a_film_stay_inside_their_frames_and_never_touch() -> None:
    chance = random.Random(0)
    for _ in range(20):
        cast, samples = films.plan(TRAIN, chance)
        strip = films.paint(cast, samples, chance)
        assert strip.shape == (films.ROWS, films.FRAMES * films.COLUMNS)
        for number, actor in enumerate(cast):
            for frame, box in zip(actor.frames, actor.boxes, strict=True):
                assert frame * films.COLUMNS <= box.left < box.right <= (frame + 1) * films.COLUMNS
                assert 0 <= box.top < box.bottom <= films.ROWS
            assert not any(touch(a, b, 1) for other in cast[:number] for a in actor.boxes for b in other.boxes)
            first, last = actor.boxes[0], actor.boxes[-1]
            across = last.left - actor.frames[-1] * films.COLUMNS - first.left + actor.frames[0] * films.COLUMNS
            along = (np.sign(across), np.sign(last.top - first.top))
            assert along == films.WAYS[actor.way]


def test_questions_about_films_look_at_who_is_asked_for() -> None:
    made = films.dataset(training=60, held_out=1)
    assert made == films.dataset(training=60, held_out=1)
    assert set(made.labels) <= {*WORDS, *films.WAYS, *films.MOMENTS}
    for each in made.train:
        question, (whole, *named) = text(each, "question"), each.gold
        assert whole.of is None and len(whole.keys) in (1, films.FRAMES)
        match question.split():
            case ["when", *_]:
                (box,) = whole.keys
                assert isinstance(box, Box)
                assert each.label == films.MOMENTS[int(box.left // films.COLUMNS) // 2]
            case ["what", "is", *_]:
                assert len(whole.keys) == 1 and each.label in WORDS and not named
            case ["which", *_]:
                assert each.label in films.WAYS and named[0].keys == whole.keys
            case _:
                assert question.startswith("what moves") and each.label in WORDS


def test_masks_in_files(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(np.zeros((4, 4), np.uint8)).data)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"image": "a.png", "labels": [["sky", ""], ["sea", "sea"]]}))
    assert row_files.read(path, rows.MASKS)[0].labels == ("sky", "", "sea", "sea")
    for wrong in ("sky", [], [["sky"], []], [[1]]):
        path.write_text(json.dumps({"image": "a.png", "labels": wrong}))
        with pytest.raises(DataError, match='line 1: "labels"'):
            row_files.read(path, rows.MASKS)
