"""Gold places of attention: known in tasks that are generated, and marked by people in others.

Places are in what was sent (characters of a text, pixels of a picture), so that they hold for every model, whatever its
tokens or its grid; `covered` says which entries of a label set they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from limelight.base import strings
from limelight.v1 import attention_pb2
from limelight_bundle.rows import Labels
from limelight_bundle.values import Array

_ENOUGH = 0.25


@dataclass(frozen=True)
class Span:
    """Characters of a text, in code points.

    input: its name, `pair.first` for the first of a pair; of a text that is put out, the input that forces it.
    sentence: of a document sent as sentences, the one in which the characters stand.
    """

    input: str
    start: int
    end: int
    sentence: int | None = None


@dataclass(frozen=True)
class Box:
    """A part of a picture as it was sent, in pixels from its upper left corner; right and bottom are one past it."""

    input: str
    left: float
    top: float
    right: float
    bottom: float


Place = Span | Box


@dataclass(frozen=True)
class Gold:
    """One thing that is asked or put out, and where to look for it.

    keys: the right places. of: the part of an input or of the output whose look it is; None for the answer as a whole.
    possible: where links are sure or possible (Och and Ney 2003), every place that is not wrong, the sure ones too.
    in_turn: whether each of the right places leads to the next, so that they are found one after the other.
    """

    keys: tuple[Place, ...]
    of: Place | None = None
    possible: tuple[Place, ...] = ()
    in_turn: bool = False

    @property
    def right(self) -> tuple[Place, ...]:
        """Every place that is not wrong."""
        return self.possible or self.keys


def word_spans(name: str, text: str) -> list[Span]:
    """The words of a text: what white space parts."""
    return [Span(name, start, end) for start, end in strings.word_spans(text)]


def covered(labels: Labels, places: Sequence[Place]) -> Array:
    """Which entries of a label set lie on one of the places, bool [entry].

    A token where it shares a character; a sentence where the place is in it; a cell of a grid where a quarter of it
    lies in the box, or a quarter of the box in it. Entries that stand for no part of an input lie on no place.
    """
    found = np.zeros(labels.size, bool)
    for place in places:
        found |= _cells(labels, place) if isinstance(place, Box) else _pieces(labels, place)
    return found


def of_the_whole(labels: Labels) -> Array:
    """Which entries stand for no part of an input or output, but look for the answer as a whole, bool [entry]."""
    if labels.grid is not None:
        return np.arange(labels.size) < len(labels.grid.leading)
    if len(labels.special):
        return np.array(labels.special, bool)
    return np.full(labels.size, not labels.starts)


def describe(gold: Gold) -> Iterator[bytes]:
    """Every place that it names, in order, as bytes; whether they are found in turn follows from the kind of data."""
    for group in ((gold.of,) if gold.of else (), gold.keys, gold.possible):
        yield repr(group).encode()


def _pieces(labels: Labels, place: Span) -> Array:
    if not labels.starts or place.input not in labels.inputs:
        return np.zeros(labels.size, bool)
    starts, ends = np.array(labels.starts), np.array(labels.ends)
    found: Array = (starts < place.end) & (ends > place.start)
    if len(labels.input_indices):
        found &= np.array(labels.input_indices) == labels.inputs.index(place.input)
    if len(labels.special):
        found &= ~np.array(labels.special, bool)
    if place.sentence is not None:
        sentences = labels.kind == attention_pb2.LABEL_KIND_SENTENCES
        found &= (np.arange(labels.size) if sentences else np.array(labels.parents)) == place.sentence
    return found


def _cells(labels: Labels, place: Box) -> Array:
    found = np.zeros(labels.size, bool)
    grid = labels.grid
    if grid is None or place.input not in labels.inputs or not grid.HasField("region"):
        return found
    region = grid.region
    down, across = (region.bottom - region.top) / grid.rows, (region.right - region.left) / grid.columns
    tops = region.top + down * np.arange(grid.rows)
    lefts = region.left + across * np.arange(grid.columns)
    rows = np.clip(np.minimum(tops + down, place.bottom) - np.maximum(tops, place.top), 0, None)
    columns = np.clip(np.minimum(lefts + across, place.right) - np.maximum(lefts, place.left), 0, None)
    shared = np.outer(rows, columns).ravel()
    smaller = min(down * across, (place.bottom - place.top) * (place.right - place.left))
    found[len(grid.leading) :] = shared >= _ENOUGH * smaller
    return found
