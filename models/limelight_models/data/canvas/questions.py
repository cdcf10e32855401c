"""Questions about pictures of digits, with the answer and where it is to be seen.

    what is above the two?                          a digit, by one step
    what is above the digit left of the two?        by two steps
    which digit is furthest left?                   a digit, by all of them
    is there a two?                                 yes, or no (then there is no right place)
    how many digits are there?                      a number

Only what has one answer is asked. The name of a digit in a question looks at the digit; so do the words "the digit".
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from limelight_bundle.values import Image, Instance, Text
from limelight_models.data.canvas.relations import OPPOSITES, the_one
from limelight_models.data.canvas.world import DIGITS, WORDS, Digit, Hand, hands, paint, plan, with_article
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Box, Gold, Span
from limelight_models.data.images import png

_SHOWN = ("what is", "which", "is there", "how many")  # how questions begin of which one is shown
_STEPS_ASKED = "'what is left of the seven?' (or right of, above, below), 'what is above the digit left of the two?'"
_OTHERS_ASKED = (
    ", 'which digit is furthest left?' (or right, up, down), 'is there a two?', 'how many digits are there?'"
)
_MARGIN = 4  # pixels by which the one furthest to a side is further than the next

# A question and its answer; the boxes that tell it; and for phrases of the question the digits that they name.
Asked = tuple[str, str, tuple[Box, ...], dict[str, Digit]]
Ask = Callable[[Sequence[Digit], random.Random], Asked | None]


def dataset(
    *,
    seed: int = 0,
    training: int = 20_000,
    held_out: int = 1_000,
    digits: tuple[int, int] = DIGITS,
    relations: bool = False,
) -> Dataset:
    """Make `training` + 2 × `held_out` questions, each about a picture of its own; the seed decides all of it.

    relations: whether all are of one step or two, those that are held out of two.
    """
    chance = random.Random(f"{'relations' if relations else 'questions'}/{seed}")
    learned, asked = KINDS, KINDS
    if relations:
        learned, asked = {one_step: 1, two_steps: 1}, {two_steps: 1}
    parts = zip(hands(), (training, held_out, held_out), (learned, asked, asked), strict=True)
    train, dev, test = (
        tuple(example(hand, chance, digits, kinds) for _ in range(count)) for hand, count, kinds in parts
    )
    return Dataset(
        name=f"Handwritten digits on a canvas: {'relations' if relations else 'questions'}",
        licence="CC-BY-4.0 (the digits)",
        summary=f"Questions about pictures of {digits[0]} to {digits[1]} digits, generated from seed {seed}.",
        train=train,
        dev=dev,
        test=test,
        shown=tuple(_first(test)),
        does="Answers a question about the digits in a picture: with the name of a digit"
        + ("." if relations else ", with how many there are, or with yes or no."),
        inputs={
            "image": (
                "Two to five different digits, handwritten, upright, apart from each other, each a quarter to a third "
                "as high as the picture, dark on light or light on dark: a drawing, a photo of paper. Any size; square "
                "is best."
            ),
            "question": _STEPS_ASKED if relations else _STEPS_ASKED + _OTHERS_ASKED,
        },
    )


def _first(examples: Sequence[Example]) -> Iterator[Instance]:
    """The first of each kind of question, where there is one."""
    for begin in _SHOWN:
        for each in examples:
            question = each.instance["question"]
            if isinstance(question, Text) and question.text.startswith(begin):
                yield each.instance
                break


def example(
    hand: Hand, chance: random.Random, digits: tuple[int, int] = DIGITS, kinds: Mapping[Ask, int] | None = None
) -> Example:
    """A picture, a question and its answer. kinds: of questions, and how frequent each is; all where none are named."""
    kinds = kinds or KINDS
    ask = chance.choices(list(kinds), list(kinds.values()))[0]  # first, so that hard questions are as frequent
    while True:
        planned = plan(hand, chance, digits=digits)
        asked = ask(planned.digits, chance)
        if asked is not None:
            return answered(png(paint(planned, hand, chance).pixels), asked)


def answered(picture: Image, asked: Asked) -> Example:
    """An example of what was asked about a picture."""
    question, answer, boxes, named = asked
    looks = [Gold(boxes)] if boxes else []
    for phrase, digit in named.items():
        start = question.index(phrase)
        looks.append(Gold((digit.box,), of=Span("question", start, start + len(phrase))))
    return Example({"image": picture, "question": Text(question)}, answer, gold=tuple(looks))


def one_step(digits: Sequence[Digit], chance: random.Random) -> Asked | None:
    """What is above the two?"""
    way, other = chance.choice(list(OPPOSITES)), chance.choice(digits)
    found = the_one(digits, other, way)
    if found is None:
        return None
    return f"what is {way} the {other.word}?", found.word, (found.box,), {other.word: other}


def two_steps(digits: Sequence[Digit], chance: random.Random) -> Asked | None:
    """What is above the digit left of the two?"""
    way, then, other = chance.choice(list(OPPOSITES)), chance.choice(list(OPPOSITES)), chance.choice(digits)
    between = the_one(digits, other, way)
    found = None if between is None else the_one(digits, between, then)
    if between is None or found is None or found is other:
        return None
    question = f"what is {then} the digit {way} the {other.word}?"
    return question, found.word, (found.box,), {other.word: other, "the digit": between}


def furthest(digits: Sequence[Digit], chance: random.Random) -> Asked | None:
    """Which digit is furthest left?"""
    side, axis, sign = chance.choice((("left", 0, 1), ("right", 0, -1), ("up", 1, 1), ("down", 1, -1)))
    first, second, *_ = sorted(digits, key=lambda each: sign * each.centre[axis])
    if abs(first.centre[axis] - second.centre[axis]) < _MARGIN:
        return None
    return f"which digit is furthest {side}?", first.word, (first.box,), {}


def exists(digits: Sequence[Digit], chance: random.Random) -> Asked:
    """Is there a two?"""
    if chance.random() < 0.5:
        found = chance.choice(digits)
        return f"is there {found.named}?", "yes", (found.box,), {found.word: found}
    missing = chance.choice([word for word in WORDS if all(each.word != word for each in digits)])
    return f"is there {with_article(missing)}?", "no", (), {}


def count(digits: Sequence[Digit], chance: random.Random) -> Asked:
    """How many digits are there?"""
    return "how many digits are there?", WORDS[len(digits)], tuple(each.box for each in digits), {}


KINDS: dict[Ask, int] = {
    one_step: 40,
    two_steps: 20,
    furthest: 15,
    exists: 15,
    count: 10,
}
