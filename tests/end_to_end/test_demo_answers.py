"""The models of the demo, asked what people try first."""

import calendar
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import limelight
from limelight_models.data import numerals, slips
from limelight_models.data.canvas.world import hands, paint, plan
from limelight_models.data.demo import canvas as demo_canvas
from limelight_models.data.demo import classics, statements
from limelight_models.data.demo import numbers as demo_numbers
from limelight_models.data.demo import slips as demo_slips
from limelight_models.data.images import png
from limelight_models.data.numerals import LANGUAGES
from limelight_models.data.strokes import ink, strokes
from tests.kit.serving import serving

_DEMO = Path(__file__).resolve().parents[2] / "deploy" / "demo"
_TOGETHER = 100
_WRONG, _WRONG_YEARS = 0.02, 0.06  # shares of the answers, at most: they are learned
_WRONG_FUNCTIONS = 0.15
_MONTHS = ("January", "mars", "Mai", "luglio", "octubre")
_NUMBERS = ((0, 5), (1, 0), (12, 0), (0, 13), (32, 1), (45, 12), (13, 13), (20, 31), (0, 0))  # day and month


@pytest.fixture(scope="module")
def client() -> Iterator[limelight.Client]:
    with serving(_DEMO) as running, limelight.Client(running.server.address) as client:
        states = {status.name: status.state for status in client.models()}
        assert states == dict.fromkeys(("canvas", "dates", "digits", "numbers", "slips"), "ready")
        yield client


def wrong(client: limelight.Client, model: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """The texts that are not answered as they should be, and what is answered; the rest as many as there may be."""
    texts, found = list(wanted), {}
    for begin in range(0, len(texts), _TOGETHER):
        asked = texts[begin : begin + _TOGETHER]
        answers = client.predict(model, [{"text": text} for text in asked])
        found |= {text: answer.text for text, answer in zip(asked, answers, strict=True) if answer.text != wanted[text]}
    return found


def test_days_that_no_month_has_are_refused(client: limelight.Client) -> None:
    texts = [f"{day} {month} {year}" for day in (0, *range(32, 46), 99) for month in _MONTHS for year in (1999, 2020)]
    texts += [f"{day}{by}{month}{by}{year}" for by in "/.-" for day, month in _NUMBERS for year in (1999, 2020)]
    found = wrong(client, "dates", dict.fromkeys(texts, "none"))
    assert len(found) <= _WRONG * len(texts), found


def test_the_ends_of_months_are_known(client: limelight.Client) -> None:
    days = [(year, month, day) for year in range(1990, 2031, 5) for month in range(1, 13) for day in range(28, 32)]
    days += [(year, 2, 29) for year in range(1900, 2101, 4)]
    wanted = {
        f"{day} {calendar.month_name[month]} {year}": f"{year}-{month:02}-{day:02}"
        if day <= calendar.monthrange(year, month)[1]
        else "none"
        for year, month, day in days
    }
    found = wrong(client, "dates", wanted)
    assert len(found) <= _WRONG * len(wanted), found


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_numbers_and_round_ones_are_read(client: limelight.Client, language: str) -> None:
    chance = random.Random(language)
    several = (*range(101), *range(200, 1000, 100), *range(1000, 100_000, 1000), *range(100_000, 1_000_000, 100_000))
    wanted = {said(number, chance, language): str(number) for number in several}
    found = wrong(client, "numbers", wanted)
    assert len(found) <= _WRONG * len(wanted), found


def test_years_are_read_as_they_are_said(client: limelight.Client) -> None:
    chance = random.Random("years")
    wanted = {
        f"{said(number // 100, chance)} {said(number % 100, chance)}": str(number)
        for number in (*range(1910, 2000, 2), *range(2010, 2030, 2))
    }
    found = wrong(client, "numbers", wanted)
    assert len(found) <= _WRONG_YEARS * len(wanted), found


def test_fractions_are_refused(client: limelight.Client) -> None:
    texts = ("three point five", "deux virgule sept", "drei Komma eins", "tres coma dos", "3.5", "-2,7")
    assert not wrong(client, "numbers", dict.fromkeys(texts, "none"))


def said(number: int, chance: random.Random, language: str = "English") -> str:
    """A number in words."""
    return numerals.said(LANGUAGES[language](number, chance))


def test_functions_of_others_are_correct_with_their_decorators(client: limelight.Client) -> None:
    # Of this project's own server: whole files that the model, taught by the standard library, never saw.
    chance = random.Random(0)
    files = sorted((_DEMO.parents[1] / "service").rglob("*.py"))
    sources = [source for file in files for source in slips.functions(file, chance)]
    for some in ([each for each in sources if each.startswith("@")], chance.sample(sources, 60)):
        answers = client.predict("slips", [{"document": source} for source in some[:60]], truncate=True)
        found = [source for source, answer in zip(some, answers, strict=False) if answer.label != slips.CORRECT]
        assert len(answers) > 30 and len(found) <= _WRONG_FUNCTIONS * len(answers), found


def test_what_people_type_first_is_read(client: limelight.Client) -> None:
    wanted = {"deux cents": 200, "trois cents": 300, "deux-cents": 200, "two hundred": 200, "zwei hundert": 200}
    wanted |= {"cien mil": 100_000, "1000": 1000, "2000": 2000, "mil.": 1000, "mil uno": 1001, "mil e um": 1001}
    wanted |= {written: number for _, number, word in demo_numbers.ALONE for written in (word, word.upper())}
    assert not wrong(client, "numbers", {text: str(number) for text, number in wanted.items()})


def test_repeated_digits_are_counted(client: limelight.Client) -> None:
    chance, wanted = random.Random("nines"), {}
    for language in LANGUAGES:
        for number in (999_999, 999_998, 899_999, 990_000, 777_777, 9_999):
            wanted |= {said(number, chance, language): str(number) for _ in range(4)}
    found = wrong(client, "numbers", wanted)
    assert len(found) <= _WRONG * len(wanted), found


def test_texts_that_are_no_number_are_none(client: limelight.Client) -> None:
    texts = "hello|cat|asdf|first|one two three|???|XIV|12345678|minus five|two and a half|what is it?".split("|")
    assert not wrong(client, "numbers", dict.fromkeys(texts, "none"))


def test_pictures_without_a_digit_are_none(client: limelight.Client) -> None:
    noise = np.random.default_rng(1)
    pictures = [np.full((size, size), shade, np.uint8) for size in (28, 64, 300) for shade in (0, 90, 255)]
    pictures += [noise.integers(0, 256, (size, size)).astype(np.uint8) for size in (28, 64)]
    pictures.append(np.tile(np.linspace(0, 255, 64), (64, 1)).astype(np.uint8))
    for answer in client.predict("digits", [{"image": png(each).data} for each in pictures]):
        assert answer.label == "none"


@pytest.mark.parametrize("thickness", [1.3, 9.0])
@pytest.mark.parametrize("inverted", [False, True])
def test_thin_and_thick_digits_are_read_off_the_middle(
    client: limelight.Client, thickness: float, inverted: bool
) -> None:
    wanted, pictures = [], []
    for digit in (*range(10), *range(10)):
        whole = np.zeros((64, 64))
        drawn = ink(strokes(digit, random.Random(len(wanted))), 12 if digit == 1 else 28, 40, thickness)
        left = (2, 30)[len(wanted) % 2]
        whole[4:44, left : left + drawn.shape[1]] = drawn
        wanted.append(str(digit))
        pictures.append(png((255 * (whole if inverted else 1 - whole)).astype(np.uint8)).data)
    answers = client.predict("digits", [{"image": each} for each in pictures])
    assert sum(answer.label != label for answer, label in zip(answers, wanted, strict=True)) <= 2


def test_questions_about_what_is_not_there_are_none(client: limelight.Client) -> None:
    chance, hand = random.Random(7), hands()[2]
    for ask, most in ((demo_canvas.absent, 0.2), (demo_canvas.beyond, 0.2), (demo_canvas.elsewhere, 0.1)):
        asked = []
        while len(asked) < 60:
            planned = plan(hand, chance)
            question = ask(planned.digits, chance)
            if question is not None:
                asked.append({"image": png(paint(planned, hand, chance).pixels).data, "question": question[0]})
        answers = client.predict("canvas", asked)
        assert sum(answer.label != "none" for answer in answers) <= most * len(answers), ask.__name__


def test_every_statement_of_python_is_correct(client: limelight.Client) -> None:
    sources = [*classics.CLASSICS, *(_program(seed) for seed in range(100_000, 100_100))]
    answers = client.predict("slips", [{"document": source} for source in sources], truncate=True)
    found = [source for source, answer in zip(sources, answers, strict=True) if answer.label != slips.CORRECT]
    assert len(found) <= 0.05 * len(sources), found


def test_slips_in_a_match_are_found_and_prose_is_none(client: limelight.Client) -> None:
    source = """def name(x):
    match x:
        case 1:
            return "one"
        case _:
            return "other"
"""
    wanted = {
        source: slips.CORRECT,
        source.replace("match", "mathc"): "misspelt keyword",
        source.replace("match x:", "match x"): "missing colon",
        source.replace("case 1:", "case 1"): "missing colon",
        "Hello world, this is a text.\nIt is no program.\nAt all.\n": "none",
    }
    answers = client.predict("slips", [{"document": each} for each in wanted])
    assert [answer.label for answer in answers] == list(wanted.values())


def _program(seed: int) -> str:
    """A program of at most so many lines as the model reads."""
    chance = random.Random(seed)
    while True:
        source = statements.program(chance)
        if demo_slips.readable(source) and source.count("\n") <= slips.LINES[1]:
            return source
