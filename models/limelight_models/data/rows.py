"""Kinds of training data: the columns of a file's rows, and the example that a row makes. `row_files` reads them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from limelight_bundle.values import Pair, Sentences, TensorValue, Text
from limelight_models.data.dataset import Example
from limelight_models.data.gold import Gold, Span
from limelight_models.data.marked import aligned, evidence

# Other names under which data sets have the same thing.
NAMES = {
    "text": ("document", "sentence", "review", "comment", "content", "message"),
    "first": ("premise", "sentence1", "text1"),
    "second": ("hypothesis", "sentence2", "text2"),
    "question": ("sentence",),
    "target": ("caption",),
    "label": ("answer", "labels", "class", "category", "sentiment"),
}


@dataclass(frozen=True)
class Kind:
    """A kind of row. columns: of a TSV file, in order, and keys of a JSON object; make: one example.

    pictures: whether `image` is the path of a picture, from the file's folder or in `images.zip` there; `make` gets it.
    recordings: whether `audio` is the path of a WAV file, from the file's folder.
    """

    name: str
    columns: tuple[str, ...]
    make: Callable[[Mapping[str, Any]], Example]
    pictures: bool = False
    recordings: bool = False

    def __str__(self) -> str:
        return self.name


def string(content: Mapping[str, Any], name: str) -> str:
    """A field that is a text. Raises: ValueError where it is none."""
    value = content.get(name)
    if not isinstance(value, str):
        raise ValueError(f'has no "{name}" that is a text')
    return value


def _filled(content: Mapping[str, Any], name: str) -> Text:
    value = string(content, name)
    if not value.strip():
        raise ValueError(f"has an empty {name}")
    return Text(value)


def _label(content: Mapping[str, Any]) -> str:
    label = content.get("label")
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise ValueError('has no "label" that is a text or a whole number')
    if not str(label).strip():
        raise ValueError("has an empty label")
    return str(label).strip()


def document(content: Mapping[str, Any]) -> Example:
    """A labelled document, raw text or a list of sentences. Raises: ValueError where something is empty or no text."""
    label, sentences = _label(content), content.get("sentences")
    if sentences is None:
        return Example({"document": _filled(content, "text")}, label)
    if not isinstance(sentences, list) or not all(isinstance(each, str) for each in sentences):
        raise ValueError('"sentences" is no list of texts')
    real = tuple(each for each in sentences if each.strip())
    if not real:
        raise ValueError("has no sentence")
    return Example({"document": Sentences(real)}, label, gold=evidence(content.get("evidence", []), sentences))


def text(content: Mapping[str, Any]) -> Example:
    """A labelled text; sentences, and what people marked in them, become one. Raises: ValueError as `document`."""
    made = document(content)
    match made.instance["document"]:
        case Sentences(sentences):
            starts = [0, *accumulate(len(each) + 1 for each in sentences)]
            marked = (key for gold in made.gold if gold.of for key in gold.keys if isinstance(key, Span))
            keys = tuple(
                Span("text", starts[key.sentence] + key.start, starts[key.sentence] + key.end)
                for key in marked
                if key.sentence is not None
            )
            gold = (Gold(keys),) if keys else ()
            return Example({"text": Text(" ".join(sentences))}, made.label, gold=gold)
        case whole:
            return Example({"text": whole}, made.label)


def pair(content: Mapping[str, Any]) -> Example:
    """A text and what it is to become; or words of both (`src`, `tgt`), and links between them that people made: `sure`
    ones, and `possible` ones, [source word, target word]. Raises: ValueError where something is empty, or no link.
    """
    if "src" in content:
        return aligned(content)
    source, target = string(content, "source"), string(content, "target")
    if not source.strip() or not target.strip():
        raise ValueError("has an empty source or target")
    return Example({"text": Text(source), "target": Text(target)})


def text_pair(content: Mapping[str, Any]) -> Example:
    """Two labelled texts. Raises: ValueError where something is empty or no text."""
    first, second = _filled(content, "first"), _filled(content, "second")
    return Example({"pair": Pair(first.text, second.text)}, _label(content))


def aspect(content: Mapping[str, Any]) -> Example:
    """A labelled target between its left and its right, "." where there is none. Raises: ValueError as the others."""
    sides = {name: side(string(content, name)) for name in ("left", "right")}
    return Example({**sides, "target": _filled(content, "target")}, _label(content))


def side(text: str) -> Text:
    """The text on one side of a target: "." where there is none."""
    return Text(text.strip() or ".")


def aspect_question(content: Mapping[str, Any]) -> Example:
    """The same as a pair: a question about the target, and the whole sentence as its answer."""
    target = _filled(content, "target").text.strip()
    parts = (string(content, "left").strip(), target, string(content, "right").strip())
    return Example({"pair": Pair(f"what about the {target}?", " ".join(filter(None, parts)))}, _label(content))


def letters(*texts: str) -> str:
    """The letters and digits of texts, whatever stands between them: the same for a sentence however it was cut."""
    return "".join(filter(str.isalnum, "".join(texts)))


def caption(content: Mapping[str, Any]) -> Example:
    """A picture and a text that describes it. Raises: ValueError where the text is empty."""
    return Example({"image": content["image"], "target": _filled(content, "target")})


def recording(content: Mapping[str, Any]) -> Example:
    """A recording and what is said in it. Raises: ValueError where the text is empty."""
    return Example({"audio": content["audio"], "target": _filled(content, "target")})


def question(content: Mapping[str, Any]) -> Example:
    """A picture, a question (or a statement) and its answer. Raises: ValueError as the others."""
    label = content.get("label")
    named = {**content, "label": str(label).lower()} if isinstance(label, bool) else content
    return Example({"image": content["image"], "question": _filled(content, "question")}, _label(named))


def mask(content: Mapping[str, Any]) -> Example:
    """A picture and the classes of its cells, row by row, "" where none is known. Raises: ValueError for others."""
    labels = content.get("labels")
    if not isinstance(labels, list) or not labels or not all(isinstance(row, list) for row in labels):
        raise ValueError('"labels" is no list of rows of classes')
    if len({len(row) for row in labels}) > 1 or not all(isinstance(each, str) for row in labels for each in row):
        raise ValueError('"labels" has rows of different lengths, or a class that is no text')
    return Example({"image": content["image"]}, labels=tuple(each for row in labels for each in row))


def tagged(content: Mapping[str, Any]) -> Example:
    """Words and the tag of each; where there are `heads`, the parse says where to look.

    Raises: ValueError where there are no words, or of one more than of the other, or a head that is no word.
    """
    words, tags = content.get("words"), content.get("tags")
    for name, each in (("words", words), ("tags", tags)):
        if not isinstance(each, list) or not each or not all(isinstance(one, str) and one.strip() for one in each):
            raise ValueError(f'has no "{name}" that are a list of texts')
    assert words and tags
    if len(words) != len(tags):
        raise ValueError(f"has {len(words)} words and {len(tags)} tags")
    heads, known = content.get("heads"), range(len(words) + 1)
    if heads is None:
        heads = []
    elif (
        not isinstance(heads, list)
        or len(heads) != len(words)
        or any(type(each) is not int or each not in known for each in heads)
    ):
        raise ValueError(f'"heads" are no list of {len(words)} numbers of words')
    return Example({"document": Sentences(tuple(words))}, labels=tuple(tags), gold=parse(words, heads))


def ordered(content: Mapping[str, Any]) -> Example:
    """Points, rows of numbers, and their order: of those that are wanted, counted from 0. Raises: ValueError."""
    order = content.get("order")
    try:
        points = np.array(content.get("points"), np.float32)
    except (TypeError, ValueError):
        points = np.empty(0, np.float32)
    if points.ndim != 2 or not points.size or not np.isfinite(points).all():
        raise ValueError('"points" are no rows of as many numbers each')
    known = range(len(points))
    if not isinstance(order, list) or not order or any(type(each) is not int or each not in known for each in order):
        raise ValueError(f'"order" is no list of numbers from 0 to {len(points) - 1}')
    if len(set(order)) < len(order):
        raise ValueError('"order" has a point twice')
    return Example({"points": TensorValue(points)}, labels=tuple(map(str, order)))


def several(content: Mapping[str, Any]) -> Example:
    """A text and its labels: a list, or in a table names with semicolons between. Raises: ValueError without any."""
    labels = content.get("labels")
    if isinstance(labels, str):
        labels = [each.strip() for each in labels.split(";")]
    if not isinstance(labels, list) or not labels or not all(isinstance(each, str) and each.strip() for each in labels):
        raise ValueError('has no "labels" that are a list of texts')
    return Example({"text": _filled(content, "text")}, labels=tuple(sorted(set(labels))))


def parse(words: Sequence[str], heads: Sequence[int]) -> tuple[Gold, ...]:
    """For each word the word that it depends on, itself for a root. heads: from 1, 0 of a root; none for no parse."""
    places = [Span("document", 0, len(word), sentence=number) for number, word in enumerate(words)]
    return tuple(Gold((places[head - 1] if head else own,), of=own) for own, head in zip(places, heads, strict=False))


DOCUMENTS = Kind("documents", ("label", "text"), document)
TEXTS = Kind("texts", ("label", "text"), text)
PAIRS = Kind("pairs", ("source", "target"), pair)
TEXT_PAIRS = Kind("pairs of texts", ("label", "first", "second"), text_pair)
ASPECTS = Kind("targets in sentences", ("label", "left", "target", "right"), aspect)
ASPECT_QUESTIONS = Kind("questions about targets in sentences", ASPECTS.columns, aspect_question)
CAPTIONS = Kind("captions of pictures", ("image", "target"), caption, pictures=True)
RECORDINGS = Kind("recordings of speech", ("audio", "target"), recording, recordings=True)
QUESTIONS = Kind("questions about pictures", ("label", "image", "question"), question, pictures=True)
MASKS = Kind("pictures with the classes of their cells", ("image", "labels"), mask, pictures=True)
TAGGED = Kind("words with tags", ("words", "tags"), tagged)
POINTS = Kind("points in an order", ("points", "order"), ordered)
SEVERAL = Kind("texts with several labels", ("labels", "text"), several)
