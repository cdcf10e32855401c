"""The data that need no download."""

import datetime
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_bundle.values import Image, Sentences, Text
from limelight_models.data import calendars, dates, digits, docstrings, names, numbers, numerals, spelling, terms
from limelight_models.data.aspects import Said
from limelight_models.data.dataset import Dataset
from limelight_models.tasks.entities import entities


def texts(dataset: Dataset, part: str, name: str) -> list[str]:
    return [value.text for each in getattr(dataset, part) if isinstance(value := each.instance[name], Text)]


MADE = {"dates": dates.dataset, "numbers": numbers.dataset}


@pytest.mark.parametrize("name", MADE)
def test_no_text_is_in_two_parts_and_the_seed_decides_all(name: str) -> None:
    made = MADE[name](seed=3, training=300, held_out=40)
    found = [[text.lower() for text in texts(made, part, "text")] for part in ("train", "dev", "test")]
    assert [len(part) for part in found] == [300, 40, 40]
    train, dev, test = map(set, found)
    assert len(dev) == len(test) == 40 and not (train & dev or train & test or dev & test)
    assert made == MADE[name](seed=3, training=300, held_out=40)
    assert made.fingerprint != MADE[name](seed=4, training=300, held_out=40).fingerprint


def test_the_first_numbers_are_learned_from_more_often_than_once() -> None:
    made = numbers.dataset(seed=3, training=30_400, held_out=40)
    learned = list(zip(texts(made, "train", "text"), texts(made, "train", "target"), strict=True))
    for text, target in (("zero", "0"), ("null", "0"), ("sette", "7"), ("twenty", "20"), ("dix mille", "10000")):
        found = [digits for words, digits in learned if words.lower() == text]
        assert len(found) > (3 if len(target) < 3 else 0)
        assert set(found) == {target}


def test_every_target_is_a_day_of_the_calendar_or_none() -> None:
    made = dates.dataset(seed=3, training=600, held_out=1)
    for each in made.train:
        value = each.instance["target"]
        assert isinstance(value, Text)
        if each.label in (dates.IMPOSSIBLE, dates.OTHER):
            assert value.text == dates.NONE and not each.gold
        else:
            assert datetime.date.fromisoformat(value.text).isoformat() == value.text
    assert {each.label for each in made.train} == {dates.WORDS, dates.NUMBERS, dates.IMPOSSIBLE, dates.OTHER}


def test_every_way_to_write_a_date() -> None:
    day, chance = dates.Day(1998, 3, 1), random.Random(0)
    written = {
        dates.write(day, form, language, chance)[0]
        for language in calendars.LANGUAGES.values()
        for form in (*calendars.SHARED, *language.forms, *calendars.NUMERIC)
    }
    wanted = """
        March 1st, 1998|Sunday, March 1, 1998|the first of March 1998|dimanche 1er mars 1998|Sonntag, den 1. März 1998
        domingo, 1 de marzo de 1998|1 marzo 1998|de 1e maart 1998|1º de março de 1998|1/3/98|1998-03-01
    """
    assert {each.strip() for line in wanted.strip().splitlines() for each in line.split("|")} <= written
    assert [calendars.ordinal(day) for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23)] == (
        "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 23rd".split()
    )


@given(st.integers(1000, 2999), st.integers(-2, 40), st.integers(-2, 40))
def test_a_day_exists_where_the_calendar_has_it(year: int, month: int, day: int) -> None:
    try:
        wanted = datetime.date(year, month, day).isoformat()
    except ValueError:
        wanted = dates.NONE
    assert dates.Day(year, month, day).iso == wanted


@given(st.integers(1, 999_999), st.sampled_from(sorted(numerals.LANGUAGES)), st.integers(0, 9))
def test_the_words_of_a_number_tell_every_digit_but_zeros(number: int, language: str, seed: int) -> None:
    pieces = numerals.LANGUAGES[language](number, random.Random(seed))
    told = {power for _, powers in pieces for power in powers}
    digits = str(number)[::-1]
    assert {power for power, digit in enumerate(digits) if digit != "0"} <= told < set(range(7))
    assert max(told) == len(digits) - 1
    assert not any(text != text.strip() for text, powers in pieces if powers)


@pytest.mark.parametrize(
    ("language", "number", "wanted"),
    [
        ("English", 417_012, "four hundred and seventeen thousand and twelve"),
        ("English", 1_700, "seventeen hundred"),
        ("English", 2_105, "twenty-one hundred and five"),
        ("English", 1_984, "nineteen eighty-four"),
        ("French", 97, "quatre-vingt-dix-sept"),
        ("French", 80_071, "quatre-vingt mille soixante et onze"),
        ("German", 21_747, "einundzwanzigtausendsiebenhundertsiebenundvierzig"),
        ("Spanish", 21_535, "veintiún mil quinientos treinta y cinco"),
        ("Italian", 2_028, "duemilaventotto"),
        ("German", 1_848, "achtzehnhundertachtundvierzig"),
        ("Dutch", 622, "zeshonderdtweeëntwintig"),
        ("Portuguese", 1_100, "mil e cem"),
    ],
)
def test_numbers_are_written_as_people_write_them(language: str, number: int, wanted: str) -> None:
    ways = (numerals.LANGUAGES[language](number, random.Random(seed)) for seed in range(200))
    assert wanted in set(map(numerals.said, ways))


def test_a_slip_of_a_finger_is_one_edit_and_never_another_word() -> None:
    chance = random.Random(0)
    for word in ("février", "setenta", "Oktober"):
        for _ in range(200):
            typed = spelling.mistyped(word, chance, ("setenta", "sesenta"))
            assert spelling.near(typed, word)
            assert word != "setenta" or not spelling.near(typed, "sesenta")
    assert not spelling.near("mars", "mai") and not spelling.near("juni", "januar")


def library(root: Path) -> Path:
    """A small library: twelve modules of each of two families, one of which cannot be parsed or imported."""
    sentence = "This {0} number {1} says something about {0} at some length, so that it counts."
    for family in ("http", "tkinter"):
        (root / family / "test").mkdir(parents=True)
        for number in range(12):
            doc = "\n\n".join(sentence.format(family, f"{number} {line}") for line in range(5))
            code = f'"""{doc}"""\nraise SystemExit("imported")\n\n\ndef f():\n    """Short."""\n'
            (root / family / f"m{number}.py").write_text(code)
        (root / family / "test" / "m.py").write_text(
            '"""' + "A test says nothing of what a family is for. " * 9 + '"""'
        )
    (root / "http" / "broken.py").write_text("def (:")
    return root


def test_documents_are_docstrings_of_whole_modules_never_imported(tmp_path: Path) -> None:
    made = docstrings.dataset(seed=1, library=library(tmp_path))
    assert made.labels == ("graphics", "internet")
    where = [
        {text.split("number ")[1].split()[0] + text[:9] for text in texts(made, part, "document")}
        for part in ("train", "dev", "test")
    ]
    assert not (where[0] & where[1] or where[0] & where[2] or where[1] & where[2])
    assert [len(getattr(made, part)) for part in ("train", "dev", "test")] == [20, 2, 2]
    assert all("Short." not in text and "A test" not in text for text in texts(made, "train", "document"))
    assert made == docstrings.dataset(seed=1, library=tmp_path)


def test_this_python_has_documents_of_every_family() -> None:
    before = set(sys.modules)
    made = docstrings.dataset()
    assert made.labels == tuple(sorted(docstrings.FAMILIES))
    assert {each.label for each in made.test} == {each.label for each in made.dev} == set(made.labels)
    assert len(made.train) > 800
    assert not {"tkinter", "turtle", "idlelib"} & (set(sys.modules) - before)


def test_digits_are_png_files_and_every_class_is_held_out() -> None:
    made = digits.dataset()
    assert (len(made.train), len(made.dev), len(made.test)) == (1437, 180, 180)
    assert {each.label for each in made.test} == {str(digit) for digit in range(10)}
    image = made.train[0].instance["image"]
    assert isinstance(image, Image) and image.data.startswith(b"\x89PNG")


def test_made_up_names_are_tagged_and_in_one_part_only() -> None:
    made = names.dataset(seed=3, training=200, held_out=60)
    assert made.fingerprint == names.dataset(seed=3, training=200, held_out=60).fingerprint
    assert made.labels == tuple(sorted(["O", *(f"{how}-{kind}" for how in "BI" for kind in names.KINDS)]))
    used = []
    for part in (made.train, made.dev, made.test):
        found = set()
        for each in part:
            words = each.instance["document"]
            assert isinstance(words, Sentences) and len(words.texts) == len(each.labels)
            found |= {" ".join(words.texts[begin:end]).lower() for _, begin, end in entities(each.labels)}
        used.append(found)
    assert not used[0] & (used[1] | used[2]) and not used[1] & used[2]


def test_terms_are_tagged_as_aspects_and_opinions_and_what_is_neutral_has_no_opinion() -> None:
    said = Said(("we", "saw", "the", "green", "tea"), (("neutral", slice(3, 5), slice(1, 2)),))
    assert terms.example(said).labels == ("O", "O", "O", "B-aspect", "I-aspect")
    liked = replace(said, things=(("positive", slice(3, 5), slice(1, 2)),))
    assert terms.example(liked).labels == ("O", "B-opinion", "O", "B-aspect", "I-aspect")
    made = terms.dataset()
    assert [len(part) for part in (made.train, made.dev, made.test)] == [1500, 300, 300]
    assert made.fingerprint == terms.dataset().fingerprint
