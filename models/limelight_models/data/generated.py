"""Every set of data that is made here, by the name that `--data` takes behind `builtin:`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from limelight.base.suggestions import similar
from limelight_models.data import (
    antecedents,
    aspects,
    cloze,
    dates,
    digits,
    docstrings,
    headlines,
    inference,
    loads,
    melodies,
    mentions,
    moves,
    names,
    numbers,
    pixels,
    points,
    purchases,
    recall,
    reviews,
    roles,
    rows,
    slips,
    snapshots,
    terms,
    topics,
    transductions,
    treebank,
)
from limelight_models.data.canvas import captions, films, masks, questions
from limelight_models.data.dataset import DataError, Dataset
from limelight_models.data.demo import canvas as demo_canvas
from limelight_models.data.demo import digits as demo_digits
from limelight_models.data.demo import numbers as demo_numbers
from limelight_models.data.demo import slips as demo_slips
from limelight_models.data.folder import DRAWINGS, IMAGES, PASSAGES, SERIES, STORIES, TRANSFER, Kind


@dataclass(frozen=True)
class Made:
    """A generated data set: the kind of its examples, and the function that makes them from a seed."""

    kind: Kind
    make: Callable[..., Dataset]


def _longer(name: str, made: Made, change: dict[str, object]) -> dict[str, Made]:
    """A set, and the same with longer examples held out than any that are trained on."""
    return {name: made, f"{name}-longer": Made(made.kind, partial(made.make, **change))}


SETS: dict[str, Made] = {
    "dates": Made(rows.PAIRS, dates.dataset),
    "digits": Made(IMAGES, digits.dataset),
    "drawings": Made(DRAWINGS, digits.drawings),
    "pixels": Made(rows.PAIRS, pixels.dataset),
    "aspects": Made(rows.ASPECTS, aspects.dataset),
    "aspect-questions": Made(rows.ASPECT_QUESTIONS, partial(aspects.dataset, form="questions")),
    "reviews": Made(TRANSFER, reviews.dataset),
    "numbers": Made(rows.PAIRS, numbers.dataset),
    "snapshots": Made(IMAGES, snapshots.dataset),
    "headlines": Made(rows.PAIRS, headlines.dataset),
    "docstrings": Made(rows.DOCUMENTS, docstrings.dataset),
    "cloze": Made(rows.TEXT_PAIRS, cloze.dataset),
    "inference": Made(rows.TEXT_PAIRS, inference.dataset),
    "mentions": Made(rows.TEXT_PAIRS, mentions.dataset),
    "moves": Made(STORIES, moves.dataset),
    "purchases": Made(PASSAGES, purchases.dataset),
    "loads": Made(SERIES, loads.dataset),
    "names": Made(rows.TAGGED, names.dataset),
    "treebank": Made(rows.PAIRS, treebank.dataset),
    "antecedents": Made(rows.TAGGED, antecedents.dataset),
    "roles": Made(rows.TAGGED, roles.dataset),
    "topics": Made(rows.SEVERAL, topics.dataset),
    "topics-240": Made(rows.SEVERAL, partial(topics.dataset, groups=40, training=5_000)),
    "terms": Made(rows.TAGGED, terms.dataset),
    "sort": Made(rows.POINTS, points.sort),
    "hull": Made(rows.POINTS, points.hull),
    "slips": Made(rows.DOCUMENTS, slips.dataset),
    "melodies": Made(rows.RECORDINGS, melodies.dataset),
    "captions": Made(rows.CAPTIONS, captions.dataset),
    "questions": Made(rows.QUESTIONS, questions.dataset),
    "films": Made(rows.QUESTIONS, films.dataset),
    "masks": Made(rows.MASKS, masks.dataset),
    "demo-canvas": Made(rows.QUESTIONS, demo_canvas.dataset),
    "demo-digits": Made(IMAGES, demo_digits.dataset),
    "demo-numbers": Made(rows.PAIRS, demo_numbers.dataset),
    "demo-slips": Made(rows.DOCUMENTS, demo_slips.dataset),
    "named-masks": Made(rows.MASKS, partial(masks.dataset, named=True)),
    "cued-masks": Made(rows.MASKS, partial(masks.dataset, cued=True, digits=(2, 3))),
    "relations": Made(rows.QUESTIONS, partial(questions.dataset, relations=True, training=10_000)),
    "delay-8": Made(rows.PAIRS, partial(transductions.dataset, "delay", lengths=(2, 8))),
    "reverse-60-longer": Made(rows.PAIRS, partial(transductions.dataset, "reverse", lengths=(4, 60), longer=True)),
}
for _rule in transductions.RULES:
    SETS |= _longer(_rule, Made(rows.PAIRS, partial(transductions.dataset, _rule)), {"longer": True})
for _form, _kind in {"recall": rows.PAIRS, "one": rows.TEXTS, "selective": rows.PAIRS, "induction": rows.TEXTS}.items():
    for _tokens in (64, 256, 1024):
        SETS |= _longer(
            f"{_form}-{_tokens}",
            Made(_kind, partial(recall.dataset, _form, tokens=_tokens)),
            {"longer": 2 * _tokens},
        )


def load(name: str, kind: Kind, seed: int) -> Dataset:
    """Make a set. Raises: DataError where there is none of the name, or its examples are of another kind."""
    if name not in SETS:
        raise DataError(f"there is no builtin data {name!r}; there are {', '.join(SETS)}{similar(name, SETS)}")
    made = SETS[name]
    if made.kind != kind:
        raise DataError(f"the builtin data {name!r} are {made.kind}; this model learns from {kind}")
    return made.make(seed=seed)
