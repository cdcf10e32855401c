"""Short films in which digits move, and questions about them. A film is one picture: its frames side by side.

    which way does the two move?        left, right, up, down; or nowhere
    what moves up?                      a digit
    what is seen for a moment?          a digit that is there in one frame only
    when is the two seen for a moment?  early, halfway or late

Only what has one answer is asked. The right place to look at is the digit in question, in every frame that it is in.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from limelight_bundle.values import Array, Text
from limelight_models.data.canvas.world import WORDS, Hand, Sample, hands, shades, size, stamp, touch
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Box, Gold, Span
from limelight_models.data.images import png

FRAMES = 6
ROWS = COLUMNS = 36
_HEIGHTS = (11, 15)
_STEPS = (2, 3)  # pixels from one frame to the next
_TRIES = 200
WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1), "nowhere": (0, 0)}
MOMENTS = ("early", "halfway", "late")


@dataclass(frozen=True)
class Actor:
    """A digit in a film: its value, the way it moves, the frames that it is in, and its box in each of them.

    Boxes are in the film's picture: frame n begins at column n × COLUMNS.
    """

    value: int
    way: str
    frames: tuple[int, ...]
    boxes: tuple[Box, ...]

    @property
    def word(self) -> str:
        """Its name."""
        return WORDS[self.value]

    @property
    def moment(self) -> str:
        """The time at which it is seen, if for one frame."""
        return MOMENTS[self.frames[0] * len(MOMENTS) // FRAMES]


# A question, its answer, whom to look at, and the actor whom the question names.
Asked = tuple[str, str, Actor, Actor | None]


def dataset(*, seed: int = 0, training: int = 20_000, held_out: int = 1_000) -> Dataset:
    """Make `training` + 2 × `held_out` films with a question each; the seed decides all of it."""
    chance = random.Random(f"films/{seed}")
    parts = zip(hands(), (training, held_out, held_out), strict=True)
    train, dev, test = (tuple(example(hand, chance) for _ in range(count)) for hand, count in parts)
    return Dataset(
        name="Handwritten digits in films: questions",
        licence="CC-BY-4.0 (the digits)",
        summary=f"Films of {FRAMES} frames in which two digits move and one flashes, generated from seed {seed}.",
        train=train,
        dev=dev,
        test=test,
    )


def example(hand: Hand, chance: random.Random) -> Example:
    """A film, a question and its answer."""
    ask = chance.choice(KINDS)
    while True:
        cast, samples = plan(hand, chance)
        asked = ask(cast, chance)
        if asked is not None:
            break
    question, answer, seen, named = asked
    gold = [Gold(seen.boxes)]
    if named is not None:
        start = question.index(named.word)
        gold.append(Gold(named.boxes, of=Span("question", start, start + len(named.word))))
    pixels = paint(cast, samples, chance)
    return Example({"image": png(pixels), "question": Text(question)}, answer, gold=tuple(gold))


def plan(hand: Hand, chance: random.Random) -> tuple[list[Actor], list[Sample]]:
    """Two digits that move (or stand), and one that is there for a moment; none of them ever touch."""
    while True:
        values = chance.sample(range(len(WORDS)), 3)
        samples = [chance.choice(hand.samples[value]) for value in values]
        cast: list[Actor] = []
        for number, (value, sample) in enumerate(zip(values, samples, strict=True)):
            width, height = size(sample, chance, _HEIGHTS)
            way = "nowhere" if number == 2 else chance.choice(list(WAYS))
            frames = (chance.randrange(FRAMES),) if number == 2 else tuple(range(FRAMES))
            actor = _placed(cast, value, way, frames, (width, height), chance)
            if actor is None:
                break
            cast.append(actor)
        else:
            return cast, samples


def _placed(
    cast: Sequence[Actor],
    value: int,
    way: str,
    frames: tuple[int, ...],
    shape: tuple[int, int],
    chance: random.Random,
) -> Actor | None:
    """A digit on a path inside the frame that nobody else's crosses; None where chance found none."""
    width, height = shape
    across, down = (chance.choice(_STEPS) * each for each in WAYS[way])
    far = FRAMES - 1
    for _ in range(_TRIES):
        left, top = chance.randint(0, COLUMNS - width), chance.randint(0, ROWS - height)
        if not (0 <= left + far * across <= COLUMNS - width and 0 <= top + far * down <= ROWS - height):
            continue
        corners = [(n * COLUMNS + left + n * across, top + n * down) for n in frames]
        boxes = tuple(Box("image", x, y, x + width, y + height) for x, y in corners)
        if not any(touch(one, box, 1) for other in cast for one in boxes for box in other.boxes):
            return Actor(value, way, frames, boxes)
    return None


def paint(cast: Sequence[Actor], samples: Sequence[Sample], chance: random.Random) -> Array:
    """The frames side by side, uint8 [row, frames × column]."""
    light = np.zeros((ROWS, FRAMES * COLUMNS), np.int64)
    for actor, sample in zip(cast, samples, strict=True):
        first = actor.boxes[0]
        drawn = stamp(sample, chance, int(first.right - first.left), int(first.bottom - first.top))
        for box in actor.boxes:
            light[int(box.top) : int(box.bottom), int(box.left) : int(box.right)] = drawn
    return shades(light, chance)


def which_way(cast: Sequence[Actor], chance: random.Random) -> Asked:
    """Which way does the two move?"""
    actor = chance.choice([each for each in cast if len(each.frames) > 1])
    return f"which way does the {actor.word} move?", actor.way, actor, actor


def what_moves(cast: Sequence[Actor], chance: random.Random) -> Asked | None:
    """What moves up?"""
    way = chance.choice([each for each in WAYS if each != "nowhere"])
    found = [each for each in cast if each.way == way]
    return (f"what moves {way}?", found[0].word, found[0], None) if len(found) == 1 else None


def what_flashes(cast: Sequence[Actor], chance: random.Random) -> Asked:
    """What is seen for a moment?"""
    (actor,) = (each for each in cast if len(each.frames) == 1)
    return "what is seen for a moment?", actor.word, actor, None


def when(cast: Sequence[Actor], chance: random.Random) -> Asked:
    """When is the two seen for a moment?"""
    (actor,) = (each for each in cast if len(each.frames) == 1)
    return f"when is the {actor.word} seen for a moment?", actor.moment, actor, actor


KINDS: tuple[Callable[[Sequence[Actor], random.Random], Asked | None], ...] = (
    which_way,
    what_moves,
    what_flashes,
    when,
)
