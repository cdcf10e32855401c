"""Rows of data: an instance, the expected answer, and where people look."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from limelight.base.counts import counted
from limelight.base.errors import InputError
from limelight.base.strings import word_spans
from limelight.descriptions import Model
from limelight.labels import LabelSet
from limelight.v1 import values_pb2


@dataclass(frozen=True)
class Span:
    """Characters of a text input, in code points. sentence: of a document sent as sentences, that of the characters."""

    input: str
    start: int
    end: int
    sentence: int | None = None


@dataclass(frozen=True)
class Box:
    """A part of a picture as sent, in pixels; right and bottom are exclusive."""

    input: str
    left: float
    top: float
    right: float
    bottom: float


Place: TypeAlias = Span | Box


@dataclass(frozen=True)
class Row:
    """A row. number: of its line; expected: None where it is not stated; evidence: empty where nobody marked it."""

    number: int
    instance: values_pb2.Instance
    expected: str | None
    evidence: tuple[Place, ...] = ()


_FORMS = "[start, end] in a text, [sentence, first word, last word + 1] in sentences, [left, top, right, bottom]"


def read_evidence(value: Any, model: Model, instance: values_pb2.Instance) -> tuple[Place, ...]:
    """Read the marks of a row.

    Args:
        value: a list of marks; each a list of numbers, or an object `{"input": name, "place": numbers}` for a model
            with several inputs that could be meant. None for none.
    Raises:
        InputError: a mark of another form, outside of its input, or for no input.
    """
    if value is None or value == "":
        return ()
    if not isinstance(value, list):
        raise InputError(f"evidence is a list of marks ({_FORMS}), not {type(value).__name__}")
    return tuple(_place(mark, model, instance) for mark in value)


def _place(mark: Any, model: Model, instance: values_pb2.Instance) -> Place:
    name, numbers = None, mark
    if isinstance(mark, dict):
        name, numbers = mark.get("input"), mark.get("place")
    whole = isinstance(numbers, list) and all(isinstance(each, int | float) for each in numbers)
    if not whole or len(numbers) not in (2, 3, 4):
        raise InputError(f"evidence {mark!r} is none of {_FORMS}")
    kinds = ("image",) if len(numbers) == 4 else ("document",) if len(numbers) == 3 else ("text", "document", "pair")
    if name is None:
        name = next((each.name for each in model.inputs if each.kind in kinds and each.name in instance.inputs), None)
    value = instance.inputs.get(str(name).partition(".")[0])
    if name is None or value is None:
        raise InputError(f"evidence {mark!r} is for no input of this row")
    if len(numbers) == 4:
        return Box(name, *map(float, numbers))
    if any(isinstance(each, float) for each in numbers):
        raise InputError(f"evidence {mark!r} has a number that is not whole")
    if len(numbers) == 3:
        return _words(mark, name, value, *numbers)
    if value.WhichOneof("kind") == "pair" and "." not in name:
        name = f"{name}.first"
    text = _text(value, name)
    start, end = numbers
    if not 0 <= start < end <= len(text):
        raise InputError(f"evidence {mark!r} is not within the {len(text)} characters of {name!r}")
    return Span(name, start, end)


def _words(mark: Any, name: str, value: values_pb2.Value, sentence: int, first: int, end: int) -> Span:
    """Return the characters of words that white space parts."""
    sentences: Sequence[str] = value.document.sentences.texts
    if not 0 <= sentence < len(sentences):
        raise InputError(f"evidence {mark!r}: the document has {counted(len(sentences), 'sentence')} as a list")
    words = word_spans(sentences[sentence])
    if not 0 <= first < end <= len(words):
        raise InputError(f"evidence {mark!r}: the sentence has {counted(len(words), 'word')}")
    return Span(name, words[first][0], words[end - 1][1], sentence)


def _text(value: values_pb2.Value, name: str) -> str:
    match value.WhichOneof("kind"):
        case "pair":
            return value.pair.second if name.endswith(".second") else value.pair.first
        case "document":
            return value.document.text
    return value.text


def covered(labels: LabelSet, places: Sequence[Place]) -> NDArray[np.bool_]:
    """Return which entries lie on a place: a token that shares a character, a cell of a grid whose centre is inside."""
    found = np.zeros(len(labels), np.bool_)
    origins = np.array(labels.origins, str) if labels.origins else np.full(len(labels), "", str)
    for place in places:
        if isinstance(place, Box):
            found |= _cells(labels, place)
        elif len(labels.starts):
            inside = (labels.starts < place.end) & (labels.ends > place.start)
            inside &= np.isin(origins, [place.input, ""])
            if place.sentence is not None:
                inside &= labels.parents == place.sentence if len(labels.parents) else False
            found |= inside
    return found & ~labels.special


def _cells(labels: LabelSet, box: Box) -> NDArray[np.bool_]:
    inside = np.zeros(len(labels), np.bool_)
    for number in range(len(labels)):
        region = labels.region(number)
        if region is not None:
            across, down = (region.left + region.right) / 2, (region.top + region.bottom) / 2
            inside[number] = box.left <= across < box.right and box.top <= down < box.bottom
    return inside
