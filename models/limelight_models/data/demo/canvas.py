"""Questions about digits on a canvas as strangers ask them: of what is not there, of other things, of empty pictures.

    what is left of the nine?       none, where there is no nine
    what is left of the two?        none, where nothing is
    what colour is the sky?         none
    is there a dog?                 no

A number may be a figure (the 7), and a question without its mark.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from limelight_bundle.values import Array
from limelight_models.data.canvas import questions
from limelight_models.data.canvas.questions import Asked, answered
from limelight_models.data.canvas.relations import OPPOSITES, possible
from limelight_models.data.canvas.world import SIZE, WORDS, Digit, Hand, hands, paint, plan, shades, with_article
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.demo.mixed import mixed
from limelight_models.data.demo.words import COMMON
from limelight_models.data.images import png

NONE = "none"
_THINGS = """
dog cat house car tree bird man woman child ball box square circle triangle letter word line dot cross star sun moon
face hand eye apple flower book phone person animal picture number colour animal shape table chair
""".split()
_ELSE = (
    "{a}", "{a} {b}", "{a} {b} {c}", "what is {a}?", "who is {a}?", "who are you?", "where is {a}?", "why {a} {b}?",
    "when is {a}?", "what is the {a} of {b}?", "what colour is the {a}?", "what color is the {a}?", "how are you?",
    "hello",
    "tell me {a}", "what is the weather like?", "what is your name?", "what time is it?", "what is this?",
    "how old are you?",
    "what is the sum of the digits?", "what is the largest digit?", "what is {a} {b}?", "what do you see?", "hi there",
    "what is the color of the {digit}?", "what colour is the {digit}?", "how large is the {digit}?",
    "why is there a {digit}?",
    "describe the picture", "how many {thing}s are there?", "what is {way} the {thing}?",
    "which {thing} is furthest left?",
    "what is the digit?", "who painted the {digit}?",
)  # fmt: skip


def dataset(*, seed: int = 0, training: int = 15_500, more: int = 11_000, held_out: int = 1_000) -> Dataset:
    """Make questions, and of what strangers ask so many more to learn from; the seed decides all of it."""
    base = questions.dataset(seed=seed, training=training, held_out=held_out)
    chance = random.Random(f"demo-canvas/{seed}")
    counts = (more, held_out // 3, held_out // 3)
    added = [[example(hand, chance) for _ in range(count)] for hand, count in zip(hands(), counts, strict=True)]
    made = mixed(base, added, seed=seed)
    return replace(
        made,
        name="Handwritten digits on a canvas: questions, some of what is not there",
        summary=f"{base.summary} Some ask about what is not there, or about an empty picture: {NONE!r}.",
        shown=base.shown,
        does=(
            "Answers a question about the digits in a picture: with the name of a digit, with how many there are, with "
            f"yes or no, or with {NONE!r} where it asks about what is not there."
        ),
    )


def example(hand: Hand, chance: random.Random) -> Example:
    """A picture and a question about what is not in it; or one that is asked in other words."""
    ask = chance.choices(list(KINDS), list(KINDS.values()))[0]
    while True:
        planned = plan(hand, chance)
        asked = ask(planned.digits, chance)
        if asked is not None:
            return (
                answered(png(paint(planned, hand, chance).pixels), asked)
                if ask is not of_nothing
                else answered(png(_empty(chance)), asked)
            )


def absent(digits: Sequence[Digit], chance: random.Random) -> Asked:
    """What is above the nine, where there is none?"""
    missing = _missing(digits, chance)
    way, then = chance.choice(list(OPPOSITES)), chance.choice(list(OPPOSITES))
    question = (
        f"what is {way} the {missing}?" if chance.random() < 0.7 else f"what is {then} the digit {way} the {missing}?"
    )
    return typed((question, NONE, (), {}), chance)


def beyond(digits: Sequence[Digit], chance: random.Random) -> Asked | None:
    """What is left of the two, where nothing is?"""
    way, other = chance.choice(list(OPPOSITES)), chance.choice(digits)
    if any(possible(each, other, way) for each in digits if each is not other):
        return None
    return typed((f"what is {way} the {other.word}?", NONE, (), {other.word: other}), chance)


def elsewhere(digits: Sequence[Digit], chance: random.Random) -> Asked:
    """A question about something else, or none at all."""
    a, b, c = (_word(chance) for _ in range(3))
    digit, thing = chance.choice(digits).word, chance.choice(_THINGS)
    question = chance.choice(_ELSE).format(a=a, b=b, c=c, digit=digit, thing=thing, way=chance.choice(list(OPPOSITES)))
    return typed((question, NONE, (), {}), chance)


def thing(digits: Sequence[Digit], chance: random.Random) -> Asked:
    """Is there a dog?"""
    return typed(
        (f"is there {_article(chance.choice(_THINGS) if chance.random() < 0.7 else _word(chance))}?", "no", (), {}),
        chance,
    )


def reworded(digits: Sequence[Digit], chance: random.Random) -> Asked | None:
    """A question in other words."""
    ask = chance.choices(list(questions.KINDS), list(questions.KINDS.values()))[0]
    asked = ask(digits, chance)
    return None if asked is None else typed(asked, chance, often=1.0)


def of_nothing(digits: Sequence[Digit], chance: random.Random) -> Asked:
    """A question about an empty picture."""
    way, then, word = chance.choice(list(OPPOSITES)), chance.choice(list(OPPOSITES)), chance.choice(WORDS)
    side = chance.choice(("left", "right", "up", "down"))
    question, answer = chance.choice(
        (
            (f"what is {way} the {word}?", NONE),
            (f"what is {then} the digit {way} the {word}?", NONE),
            (f"which digit is furthest {side}?", NONE),
            (f"is there {with_article(word)}?", "no"),
            ("how many digits are there?", "zero"),
        )
    )
    return typed((question, answer, (), {}), chance)


KINDS: dict[Callable[[Sequence[Digit], random.Random], Asked | None], int] = {
    absent: 26,
    beyond: 34,
    elsewhere: 10,
    thing: 4,
    of_nothing: 8,
    reworded: 18,
}


def typed(asked: Asked, chance: random.Random, often: float = 0.25) -> Asked:
    """The same question with figures in the place of names, or without its mark, or with another first word."""
    question, answer, boxes, named = asked
    if chance.random() < 0.6 * often:
        for value, word in enumerate(WORDS):
            if re.search(rf"\b{word}\b", question):
                question = re.sub(rf"\ban? {word}\b", f"a {value}", question)
                question = re.sub(rf"\b{word}\b", str(value), question)
                named = {str(value) if phrase == word else phrase: digit for phrase, digit in named.items()}
    if chance.random() < 0.5 * often:
        question = question.rstrip("?")
    if chance.random() < 0.3 * often:
        question = question.replace("what is", chance.choice(("what's", "which digit is", "what number is")), 1)
    return question, answer, boxes, named


def _missing(digits: Sequence[Digit], chance: random.Random) -> str:
    """The name of a digit that is not there."""
    return chance.choice([word for word in WORDS if all(each.word != word for each in digits)])


def _word(chance: random.Random) -> str:
    """A word of any kind, also one that nobody knows."""
    return (
        chance.choice(COMMON)
        if chance.random() < 0.7
        else "".join(chance.choices("abcdefghijklmnoprstuvw", k=chance.randint(2, 8)))
    )


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _empty(chance: random.Random) -> Array:
    """A picture without a digit: uint8 [row, column]; blank, shaded or noisy."""
    if chance.random() < 0.3:
        return np.full((SIZE, SIZE), chance.choice((0, 255, 128, chance.randrange(256))), np.uint8)
    noise = np.random.Generator(np.random.PCG64(chance.getrandbits(64)))
    if chance.random() < 0.4:
        return noise.integers(0, 256, (SIZE, SIZE)).astype(np.uint8)
    if chance.random() < 0.5:
        return shades(np.zeros((SIZE, SIZE), np.int64), chance)
    ramp = np.linspace(0, chance.randint(20, 255), SIZE) + noise.normal(0, chance.choice((0, 3)), (SIZE, SIZE))
    shaded: Array = np.clip(ramp if chance.random() < 0.5 else ramp.T, 0, 255).astype(np.uint8)
    return shaded
