"""Numbers as strangers type them: round ones first, spelt in every way that is met; and texts that are no number."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace

from limelight_bundle.values import Text
from limelight_models.data import numbers
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.demo.mixed import drawn, mixed
from limelight_models.data.demo.words import COMMON
from limelight_models.data.numbers import DIGITS, NONE, OTHER, draw, gold
from limelight_models.data.numerals import LANGUAGES, Pieces, said
from limelight_models.data.spelling import cased

_LARGE = re.compile("(hundert|tausend|honderd|duizend|cento|cientos|mila)")
# What is one word has few texts, and people type it first: each is learned from so many times, and none is held out.
_ALONE_TIMES, _WORD_TIMES = 36, 3
# A hundred or a thousand.
ALONE = (
    ("English", 100, "hundred"), ("English", 1000, "thousand"), ("French", 100, "cent"), ("French", 1000, "mille"),
    ("German", 100, "hundert"), ("German", 1000, "tausend"), ("Spanish", 100, "cien"), ("Spanish", 1000, "mil"),
    ("Italian", 100, "cento"), ("Italian", 1000, "mille"), ("Dutch", 100, "honderd"), ("Dutch", 1000, "duizend"),
    ("Portuguese", 100, "cem"), ("Portuguese", 1000, "mil"),
)  # fmt: skip
_SIGNS = ("minus {}", "-{}", "moins {}", "menos {}", "meno {}", "min {}")
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth twentieth hundredth 1st 2nd 3rd 4th 21st premier"
    " deuxième zweite dritte primero segundo primo secondo eerste tweede primeiro once twice double dozen half quarter"
    " infinity pi nan null-null true false yes no none nothing"
).split()
_MARKED = 0.1
_MARKS = "?!.,;:-+*/()[]#@&%$€=<>~_|'\""


def dataset(*, seed: int = 0, training: int = 26_000, more: int = 13_000, held_out: int = 1_200) -> Dataset:
    """Generate numbers, and of what strangers type so many more to learn from; the seed decides all of it."""
    chance = random.Random(f"demo-numbers/{seed}")
    base = numbers.dataset(seed=seed, training=training, held_out=held_out)
    return mixed(
        replace(
            base,
            name="Numbers in words, as people type them",
            summary=f"{base.summary} Round numbers, other ways to spell, and texts that are no number are among them.",
            train=(*base.train, *_first(chance)),
        ),
        drawn(lambda: example(chance), more, held_out // 3, held_out // 3),
        seed=seed,
    )


def example(chance: random.Random) -> Example:
    """A text and its number, or `none`."""
    match chance.choices(("round", "repeated", "spelt", "digits", "year", "other"), (34, 10, 14, 11, 7, 24))[0]:
        case "other":
            return Example({"text": Text(cased(other(chance), chance)), "target": Text(NONE)}, OTHER)
        case "digits":
            number = chance.choice((round_number, draw))(chance)
            text = chance.choice((str(number), str(number), f"{number:,}"))
            return Example({"text": Text(text), "target": Text(str(number))}, DIGITS)
        case "round":
            number = round_number(chance)
        case "repeated":
            number = repeated(chance)
        case "year":  # nineteen eighty-four
            number = chance.randint(1010, 2099)
        case _:
            number = draw(chance)
    kind = chance.choice(list(LANGUAGES))
    pieces = spelt(LANGUAGES[kind](number, chance), chance)
    text = cased(said(pieces), chance) + (chance.choice(".!?") if chance.random() < _MARKED else "")
    return Example({"text": Text(text), "target": Text(str(number))}, kind, gold=gold(number, pieces))


def _first(chance: random.Random) -> Iterator[Example]:
    """What people type first, in one word."""
    for kind, number, word in ALONE:
        places = gold(number, [(word, (len(str(number)) - 1,))])
        for _ in range(_ALONE_TIMES):
            yield Example({"text": Text(cased(word, chance)), "target": Text(str(number))}, kind, gold=places)
    for word in dict.fromkeys((*COMMON, *_ORDINALS)):
        for _ in range(_WORD_TIMES):
            yield Example({"text": Text(cased(word, chance)), "target": Text(NONE)}, OTHER)


def round_number(chance: random.Random) -> int:
    """One digit, or two or three, and zeros; now and then a little more."""
    match chance.randrange(6):
        case 0 | 1:
            number = chance.randint(1, 9) * 10 ** chance.choice((2, 2, 2, 3, 3, 4, 5))
        case 2:
            number = chance.randint(11, 99) * 10 ** chance.choice((1, 2, 3, 3, 4))
        case 3:
            number = chance.randint(100, 999) * 10 ** chance.choice((1, 2, 3))
        case 4:
            number = chance.randint(1, 9) * 10 ** chance.choice((2, 3, 4, 5)) + chance.choice((1, 5, 10, 50, 100, 500))
        case _:
            number = chance.randint(1, 9) * 10 ** chance.choice((2, 2, 3)) + chance.randint(1, 99)
    return min(number, numbers.MOST)


def repeated(chance: random.Random) -> int:
    """One digit three to six times, mostly nines; or all but one of them: 999,999, 7,777, 899,999."""
    digits = [chance.choice((9, 9, 9, *range(1, 9)))] * chance.choice((3, 4, 5, 6, 6, 6))
    if chance.random() < 0.6:
        digits[chance.randrange(len(digits))] = chance.randint(1, 9)
    return int("".join(map(str, digits)))


def spelt(pieces: Pieces, chance: random.Random) -> Pieces:
    """The same number with hyphens everywhere, or in one word, or with large words that stand apart; most as it is."""
    match chance.choices(("as it is", "hyphens", "spaces", "joined", "apart"), (70, 9, 7, 4, 10))[0]:
        case "hyphens":  # deux-cents, two-hundred
            return [(text.replace(", ", "-").replace(" ", "-"), powers) for text, powers in pieces]
        case "spaces":
            return [(text.replace("-", " "), powers) for text, powers in pieces]
        case "joined":  # fortytwo
            return [(text.replace("-", ""), powers) for text, powers in pieces]
        case "apart":  # zwei hundert
            return _apart(pieces)
    return pieces


def _apart(pieces: Pieces) -> Pieces:
    found: Pieces = []
    for text, powers in pieces:
        parted = _LARGE.sub(r" \1", text)
        if not found or found[-1][0].endswith(" "):
            parted = parted.lstrip() if parted != text else text
        found.append((parted.replace("  ", " "), powers))
    return found


def other(chance: random.Random) -> str:
    """A text that is no whole number from 0 to the largest: a word, a mark, several, one with a sign."""
    match chance.choices(range(9), (26, 8, 10, 12, 8, 8, 8, 10, 10))[0]:
        case 0:
            return chance.choice(COMMON)
        case 1:
            return " ".join(chance.choices(COMMON, k=chance.randint(2, 7))) + chance.choice(("", "?", "."))
        case 2:
            return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(1, 9)))
        case 3:  # several numbers
            language = chance.choice(list(LANGUAGES.values()))
            several = [said(language(chance.randint(0, 9), chance)) for _ in range(chance.randint(2, 5))]
            return chance.choice((" ", " ", ", ", " + ", " or ")).join(
                several if len(several) > 2 else [*several, "and"]
            )
        case 4:
            return chance.choice(_ORDINALS)
        case 5:
            number = draw(chance)
            words = said(LANGUAGES[chance.choice(list(LANGUAGES))](number, chance))
            return chance.choice(_SIGNS).format(chance.choice((words, str(number))))
        case 6:
            return "".join(chance.choices(_MARKS, k=chance.randint(1, 4)))
        case 7:  # too many digits, or of another kind
            long = "".join(chance.choices("0123456789", k=chance.randint(7, 12)))
            return chance.choice(
                (f"{chance.randint(1, 9)}{long}", f"1e{chance.randint(1, 9)}", hex(draw(chance)), _roman(chance))
            )
        case _:  # a number of something
            language = chance.choice(list(LANGUAGES.values()))
            return f"{chance.choice((said(language(draw(chance), chance)), str(draw(chance))))} {chance.choice(COMMON)}"


def _roman(chance: random.Random) -> str:
    tens, ones = ("", "X", "XX", "XXX", "XL", "L", "LX"), ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
    return chance.choice(("", "", "M", "MM", "C")) + chance.choice(tens) + chance.choice(ones)
