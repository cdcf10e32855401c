"""Data of the demo models: their answers are true, and no input is in two parts."""

import random

import pytest

from limelight_bundle.values import Image, Text
from limelight_models.data import numbers as plain_numbers
from limelight_models.data import slips
from limelight_models.data.canvas.world import hands
from limelight_models.data.dataset import Example
from limelight_models.data.demo import canvas, classics, digits, numbers, statements
from limelight_models.data.demo import slips as demo_slips
from limelight_models.data.demo.words import COMMON
from limelight_models.data.gold import Span
from limelight_models.data.numerals import LANGUAGES, said

SMALL = {
    "numbers": lambda: numbers.dataset(seed=3, training=200, more=100, held_out=40),
    "digits": lambda: digits.dataset(seed=3, training=40, more=40, held_out=12),
    "canvas": lambda: canvas.dataset(seed=3, training=40, more=60, held_out=12),
}


_STATEMENTS = [
    *("match |case _:|async def |async with |async for |await |with |:= |lambda |except* |except |finally:".split("|")),
    *("f'|f\"|global |nonlocal |yield from |del |assert |raise | from error|import |type |class |while ".split("|")),
    *("elif |else:|pass|break|continue| -> |: int|not in |is not |**|return |@".split("|")),
]


def sent(example: Example) -> tuple[str | bytes, ...]:
    values = (value for name, value in sorted(example.instance.items()) if name != "target")
    return tuple(
        value.text.lower() if isinstance(value, Text) else value.data
        for value in values
        if isinstance(value, Text | Image)
    )


@pytest.mark.parametrize("name", SMALL)
def test_no_input_is_in_two_parts_and_the_seed_decides_all(name: str) -> None:
    made = SMALL[name]()
    train, dev, test = ({sent(each) for each in part} for part in (made.train, made.dev, made.test))
    assert train and dev and test and not (train & dev or train & test or dev & test)
    assert made.fingerprint == SMALL[name]().fingerprint
    if name != "numbers":
        assert "none" in made.labels


def test_what_people_type_first_is_learned_and_never_held_out() -> None:
    made = numbers.dataset(seed=3, training=2000, more=1000, held_out=200)
    train, held_out = ({sent(each)[0] for each in part} for part in (made.train, (*made.dev, *made.test)))
    plain = plain_numbers.dataset(seed=3, training=2000, held_out=200)
    others = {sent(each)[0] for each in (*plain.dev, *plain.test)}  # a few words are held out there
    assert {word for _, _, word in numbers.ALONE} <= train - held_out
    assert set(COMMON) - others <= train - held_out


def test_repeated_digits_are_at_most_two_kinds() -> None:
    chance = random.Random(5)
    found = [numbers.repeated(chance) for _ in range(300)]
    assert 999_999 in found and all(100 <= each <= 999_999 and len(set(str(each))) <= 2 for each in found)


def test_other_spellings_are_of_the_same_number() -> None:
    chance, found = random.Random(0), set()
    for _ in range(400):
        pieces = LANGUAGES["French"](200, chance)
        found.add(said(numbers.spelt(pieces, chance)))
        pieces = LANGUAGES["German"](200, chance)
        found.add(said(numbers.spelt(pieces, chance)))
    assert found == {"deux cents", "deux-cents", "zweihundert", "zwei hundert"}


def test_what_is_no_number_has_no_place_to_look_at() -> None:
    chance = random.Random(1)
    for _ in range(300):
        made = numbers.example(chance)
        target, text = made.instance["target"], made.instance["text"]
        assert isinstance(target, Text) and isinstance(text, Text)
        if target.text == "none":
            assert not made.gold and text.text.strip()
        else:
            assert 0 <= int(target.text) <= 999_999


def test_programs_are_python_and_slips_in_them_are_none() -> None:
    chance, kinds = random.Random(2), set()
    texts = ["A text that is no program at all."]
    for _ in range(300):
        made = demo_slips.example(chance, texts)
        kinds.add(made.label)
        document = made.instance["document"]
        assert isinstance(document, Text)
        if made.label == slips.CORRECT:
            assert demo_slips.readable(document.text) and not made.gold
        elif made.label != "none":
            # A keyword that is misspelt can be a name.
            assert made.label == "misspelt keyword" or not slips.parses(document.text)
            assert all(
                isinstance(key, Span) and document.text[key.start : key.end].strip()
                for look in made.gold
                for key in look.keys
            )
    assert kinds == {"none", slips.CORRECT, *slips.SLIPS}
    assert all(demo_slips.readable(each) for each in classics.CLASSICS)


def test_every_statement_is_written() -> None:
    chance = random.Random(3)
    whole = "\n".join(statements.program(chance) for _ in range(1500))
    for wanted in _STATEMENTS:
        assert wanted in whole, wanted


def test_questions_of_what_is_not_there_are_so() -> None:
    chance, hand = random.Random(4), hands()[0]
    found = [canvas.example(hand, chance) for _ in range(200)]
    assert {"none", "no", "zero"} <= {each.label for each in found}
    assert all(len(each.gold) <= 3 for each in found)
