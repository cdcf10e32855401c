"""Sequences that need no download: numbers in words, and the same in digits, with the words that each digit is from.

What is no whole number is answered by `none`. No text is in two parts. Numbers that people try first, the first ones,
round ones and years of our time, are learned from several times each: they have few texts.
"""

import random
from collections.abc import Iterator
from functools import cache
from itertools import islice

from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span
from limelight_models.data.numerals import LANGUAGES, Pieces, said
from limelight_models.data.spelling import cased, mistyped, spelt_out

NONE = "none"
MOST = 999_999
DIGITS, OTHER = "in digits", "not a number"
_FREQUENT = {**dict.fromkeys(LANGUAGES, 13), DIGITS: 3, OTHER: 7}
_LENGTHS = {1: 3, 2: 20, 3: 32, 4: 20, 5: 11, 6: 14}  # digits, and how frequent so many are
_ZEROS = 0.15  # share of the digits that are made 0
_SLIPS = 0.05
_SHORTEST = 5
# Numbers in every language, each so often among those to learn from.
_TRIED = {
    6: range(21),
    1: range(1900, 2031),
    2: (*range(21, 101), *range(200, 1000, 100), *range(1000, 100_000, 1000), *range(100_000, MOST, 100_000)),
}
_TRIED_SHARE = 0.15  # of those to learn from, at most
_TOO_LARGE, _FRACTIONS = 0.2, 0.1  # shares of what is no number here
_MILLIONS = {
    "English": ("million", "billion"),
    "French": ("million", "millions", "milliards"),
    "German": ("Million", "Millionen", "Milliarden"),
    "Spanish": ("millón", "millones"),
    "Italian": ("milione", "milioni", "miliardi"),
    "Dutch": ("miljoen", "miljard"),
    "Portuguese": ("milhão", "milhões"),
}
# Before tenths.
_POINTS = dict(zip(LANGUAGES, ("point", "virgule", "Komma", "coma", "virgola", "komma", "vírgula"), strict=True))
_OTHER_WORDS = """
hello world many few some all more dozen half and plus minus percent point year house car what is the answer please
million billion millions millionen milliarden millones milhões viele einige jahre mehr beaucoup plusieurs années mucho
algunos casa molti alcuni anni veel enkele jaren muitos alguns anos
""".split()


def places(pieces: Pieces) -> dict[int, tuple[Span, ...]]:
    """Places of the words that decide the digit of each power of ten."""
    found: dict[int, tuple[Span, ...]] = {}
    begin = 0
    for text, powers in pieces:
        for power in powers:
            found[power] = (*found.get(power, ()), Span("text", begin, begin + len(text)))
        begin += len(text)
    return found


def gold(number: int, pieces: Pieces) -> tuple[Gold, ...]:
    """The words behind each digit; a zero between others is in no word."""
    digits, found = len(str(number)), places(pieces)
    return tuple(
        Gold(found[power], of=Span("target", digits - 1 - power, digits - power))
        for power in reversed(range(digits))
        if power in found
    )


def dataset(*, seed: int = 0, training: int = 36_000, held_out: int = 1_500) -> Dataset:
    """Write `training` + 2 × `held_out` texts, different ones but for what people try; the seed decides all of it."""
    chance = random.Random(f"numbers/{seed}")
    tried = list(tried_first(chance))
    taken = {_key(each) for each in tried}
    chance.shuffle(tried)
    tried = tried[: int(training * _TRIED_SHARE)]
    examples = (*tried, *islice(_different(taken, chance), training + 2 * held_out - len(tried)))
    return Dataset(
        name="Numbers in words",
        licence="none: generated",
        summary=(
            f"Numbers from 0 to {MOST:,} in {', '.join(LANGUAGES)}, generated from seed {seed}. The right place of a"
            " digit is the words that decide it."
        ),
        train=examples[:training],
        dev=examples[training : training + held_out],
        test=examples[training + held_out :],
        shown=tuple({"text": Text(text)} for text in ("siebenundvierzig", "forty-two")),
        does=(
            f"Reads a number in words in {', '.join(LANGUAGES)} and writes it in digits, without separators;"
            f" or {NONE!r} where the text is no number."
        ),
        inputs={
            "text": (
                f"One whole number from 0 to {MOST:,}, written out: forty-two, quatre-vingt-dix-sept, siebenundvierzig,"
                " dos mil veintiuno. Capitals, accents and single typing errors do not matter."
            )
        },
    )


def tried_first(chance: random.Random) -> Iterator[Example]:
    """Likely first inputs, in every language."""
    for kind, language in LANGUAGES.items():
        for number in (number for times, several in _TRIED.items() for number in several for _ in range(times)):
            pieces = language(number, chance)
            text = cased(said(pieces), chance)
            yield Example({"text": Text(text), "target": Text(str(number))}, kind, gold=gold(number, pieces))


def _different(taken: set[str], chance: random.Random) -> Iterator[Example]:
    """Examples without end, none of them with a text that is taken."""
    while True:
        found = example(chance)
        if (key := _key(found)) not in taken:
            taken.add(key)
            yield found


def _key(found: Example) -> str:
    value = found.instance["text"]
    assert isinstance(value, Text)
    return value.text.lower()


def example(chance: random.Random) -> Example:
    """A text, its number in digits, and where each is from; the language is the label."""
    kind = chance.choices(list(_FREQUENT), list(_FREQUENT.values()))[0]
    if kind == OTHER:
        return Example({"text": Text(cased(other(chance), chance)), "target": Text(NONE)}, kind)
    number = draw(chance)
    if kind == DIGITS:
        text = chance.choice((str(number), f"{number:,}", f"{number:,}".replace(",", " ")))
        return Example({"text": Text(text), "target": Text(str(number))}, kind)
    pieces = [(_typed(text, chance), powers) for text, powers in LANGUAGES[kind](number, chance)]
    text = cased(said(pieces), chance)
    return Example({"text": Text(text), "target": Text(str(number))}, kind, gold=gold(number, pieces))


def draw(chance: random.Random) -> int:
    """A number, with more zeros than chance has."""
    length = chance.choices(list(_LENGTHS), list(_LENGTHS.values()))[0]
    digits = [chance.randint(0 if length == 1 else 1, 9)]
    digits += [0 if chance.random() < _ZEROS else chance.randrange(10) for _ in range(length - 1)]
    return int("".join(map(str, digits)))


def _typed(word: str, chance: random.Random) -> str:
    """A word with slips, unless they could mean another number."""
    if chance.random() < 0.1:
        word = spelt_out(word)
    if len(word) < _SHORTEST or chance.random() >= _SLIPS:
        return word
    return mistyped(word, chance, _words(len(word)))


@cache
def _words(length: int) -> tuple[str, ...]:
    """The words for digits, in small letters, that have about so many."""
    found = {
        text.lower()
        for language in LANGUAGES.values()
        for number in (*range(100), *range(100, 1000, 100))
        for text, powers in language(number, random.Random(number))
        if powers
    }
    return tuple(sorted(word for word in found if abs(len(word) - length) <= 2))


def other(chance: random.Random) -> str:
    """A text that is no whole number, or too large a one: words, some with a number among them, or a fraction."""
    if chance.random() < 0.1:
        return f"{chance.choice(('', '-'))}{chance.randrange(100)}{chance.choice('.,/')}{chance.randint(1, 99)}"
    if chance.random() < _TOO_LARGE:
        return _too_large(chance)
    if chance.random() < _FRACTIONS:
        language, point = chance.choice(list(_POINTS.items()))
        return f" {point} ".join(said(LANGUAGES[language](chance.randrange(100), chance)) for _ in range(2))
    words = chance.choices(_OTHER_WORDS, k=chance.randint(1, 4))
    if chance.random() < 0.4:
        made = LANGUAGES[chance.choice(list(LANGUAGES))](draw(chance), chance)
        words.insert(chance.randint(0, len(words)), said(made))
    return " ".join(words)


def _too_large(chance: random.Random) -> str:
    """Some millions of a language, and perhaps what follows them."""
    language = chance.choice(list(_MILLIONS))
    words = [said(LANGUAGES[language](chance.randint(1, 20), chance)), chance.choice(_MILLIONS[language])]
    if chance.random() < 0.3:
        words.append(said(LANGUAGES[language](chance.randint(1, MOST), chance)))
    return " ".join(words)
