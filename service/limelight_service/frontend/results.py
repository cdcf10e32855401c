"""Typed results from raw outputs: classes with probabilities, tags, spans, boxes, sequences, vectors, numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt

from limelight.v1 import model_pb2
from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Array, Instance, Pair, Sentences, Text
from limelight_service.attention.ranking import best_of_rows
from limelight_service.ipc import boundary

Doubles = npt.NDArray[np.float64]
MOST_SPANS = 5
MOST_ENTRIES = 5  # of those that a row points at
_NUMBER = 10  # digits of an entry's


@dataclass(frozen=True)
class Classes:
    """Classes of the whole instance, most probable first. names: empty for a class without a name."""

    names: Sequence[str]
    indices: Sequence[int]
    probabilities: Sequence[float]


@dataclass(frozen=True)
class Tags:
    """Classes of entries of a label set, row by row: `per_entry` of them a row, most probable first.

    entries: first entry of each row and its end; None if row i is entry i.
    """

    label_set: str
    per_entry: int
    names: Sequence[str]
    indices: Sequence[int]
    probabilities: Sequence[float]
    entries: tuple[Sequence[int], Sequence[int]] | None = None


@dataclass(frozen=True)
class Embedding:
    """A vector FLOAT [size]."""

    vector: Array


@dataclass(frozen=True)
class TokenVectors:
    """Vectors FLOAT [token, size] of the tokens of a label set."""

    label_set: str
    vectors: Array


@dataclass(frozen=True)
class Number:
    """One number of a regression."""

    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class Numbers:
    """The numbers of a regression."""

    numbers: Sequence[Number]


@dataclass(frozen=True)
class Span:
    """A part of a text: code points from `start` to before `end`, of a sentence or a part of a pair where there are
    several. text: it, quoted; empty where tensors were sent.
    """

    start: int
    end: int
    probability: float
    text: str = ""
    part: str = ""
    sentence: int | None = None


@dataclass(frozen=True)
class Spans:
    """The most probable spans of a text, best first. none: probability that no span answers, where the model tells."""

    spans: Sequence[Span]
    none: float | None = None


@dataclass(frozen=True)
class Box:
    """An object: `edges` are left, top, right and bottom, in pixels of the image; query: the entry that found it."""

    name: str
    index: int
    probability: float
    edges: tuple[float, float, float, float]
    query: int


@dataclass(frozen=True)
class Boxes:
    """Objects in an image, most probable first. relative: edges are parts of the model's picture, from 0 to 1."""

    label_set: str
    boxes: Sequence[Box]
    relative: bool = False


@dataclass(frozen=True)
class Sequences:
    """Generated sequences, best first."""

    sequences: Sequence[boundary.Sequence]


TypedResult = Classes | Tags | Embedding | TokenVectors | Numbers | Spans | Boxes | Sequences


@dataclass(frozen=True)
class Answered:
    """Input of a typed result. labels: every label set of the row. instance: as it was sent."""

    outputs: Mapping[str, Array]
    sequences: Sequence[boundary.Sequence]
    labels: Mapping[str, Labels]
    instance: Instance


class ResultBuilder(Protocol):
    """Turns outputs of an answer into one typed result. by_sizes: its `size` is that of any row of the same sizes."""

    @property
    def by_sizes(self) -> bool: ...

    def build(self, answer: Answered, most: int) -> TypedResult:
        """Make the result. most: classes of each entry, or boxes; 0 for all."""

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        """Bound its bytes from above; steps: of each sequence, most: classes of each entry, or boxes; 0 for all."""


def result_builders(description: model_pb2.ModelDescription) -> dict[str, ResultBuilder]:
    """Choose, once a model, how outputs become typed results: by name, in the description's order."""
    outputs = {each.name: each for each in description.outputs}
    return {each.name: _builder(each, description, outputs) for each in description.results}


def probabilities(scores: Array, activation: int) -> Doubles:
    """Turn class scores [..., class] into probabilities."""
    values = np.asarray(scores, dtype=np.float64)
    if activation == model_pb2.ACTIVATION_SIGMOID:
        # exp of a number that is never positive cannot overflow.
        small = np.exp(-np.abs(values))
        return np.asarray(np.where(values >= 0, 1 / (1 + small), small / (1 + small)))
    if activation == model_pb2.ACTIVATION_SOFTMAX:
        powers = np.exp(values - values.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
    return values


def best_spans(start: Doubles, end: Doubles, count: int) -> list[tuple[int, int, float]]:
    """Give the most probable spans (first, last, probability), best first; the last is never before the first.

    start, end [token]: probabilities. Takes time in proportion to count × tokens: a span among the best `count`
    begins at one of the `count` tokens whose own best span is most probable.
    """
    best_end = np.maximum.accumulate(end[::-1])[::-1]
    firsts = np.argsort(-(start * best_end), kind="stable")[:count]
    table = start[firsts, np.newaxis] * end
    table[np.arange(len(end)) < firsts[:, np.newaxis]] = -1.0
    order = np.argsort(-table, axis=None, kind="stable")[:count]
    rows, lasts = np.unravel_index(order, table.shape)
    return [
        (int(firsts[row]), int(last), float(table[row, last]))
        for row, last in zip(rows, lasts, strict=True)
        if table[row, last] >= 0
    ]


def _builder(
    result: model_pb2.ResultDescription,
    description: model_pb2.ModelDescription,
    outputs: Mapping[str, model_pb2.OutputDescription],
) -> ResultBuilder:
    match result.WhichOneof("kind"):
        case "classes" if result.classes.label_set:
            return TaggingBuilder(result.classes, outputs[result.classes.output])
        case "classes":
            return _Classification(result.classes)
        case "embedding":
            return _Embedding(outputs[result.embedding.output])
        case "token_vectors":
            return _TokenVectors(result.token_vectors, outputs[result.token_vectors.output])
        case "spans":
            return SpansBuilder(result.spans, description)
        case "regression":
            return _Regression(result.regression)
        case "boxes":
            return _Boxes(result.boxes, outputs[result.boxes.scores_output])
    return _Sequences()


class _ClassNames:
    """Names of classes, and the bytes that so many of them can take."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = np.array([*labels, ""], dtype=object)
        self._count = len(labels)
        self._longest = [0, *accumulate(sorted((len(label.encode()) for label in labels), reverse=True))]

    def of(self, indices: npt.NDArray[np.intp]) -> list[str]:
        """Give the names of classes; empty for one that the description does not name."""
        return self._labels[np.minimum(indices, self._count)].tolist()  # type: ignore[no-any-return]

    def bytes(self, most: int, each: int) -> int:
        """Bound the bytes of `most` classes (0 for all), with `each` bytes beside the name."""
        count = min(most or self._count, self._count)
        return self._longest[count] + count * each


class _Named:
    """What the classes of a result are called: as the description says, or as the entries that are pointed at."""

    def __init__(self, classes: model_pb2.ClassesDescription) -> None:
        self.points_at = classes.class_label_set
        self._names = _ClassNames(classes.labels)

    def of(self, answer: Answered) -> _ClassNames:
        if not self.points_at:
            return self._names
        return _ClassNames(entry_texts(answer.labels[self.points_at], answer.instance))

    def most(self, most: int) -> int:
        """How many classes a row has; 0 for all."""
        return (most or MOST_ENTRIES) if self.points_at else most

    def bytes(self, row: Row, most: int, each: int) -> int:
        """Bound the bytes of a row's classes, with `each` bytes beside the name."""
        if not self.points_at:
            return self._names.bytes(most, each)
        labels = row.labels[self.points_at]
        longest = max((len(text.encode()) for text in labels.texts), default=_NUMBER)
        if not len(labels.texts):
            spans = zip(labels.starts, labels.ends, strict=True)
            longest = max((4 * (end - start) for start, end in spans), default=_NUMBER)
        return min(self.most(most), labels.size) * (longest + each)


def entry_texts(labels: Labels, instance: Instance) -> Sequence[str]:
    """Give the texts of entries, of sentences as they were sent; the numbers of those that have none."""
    if len(labels.texts):
        return list(labels.texts)
    match instance.get(labels.inputs[0]) if labels.inputs else None:
        case Sentences(texts) if not labels.parent:
            return texts[: labels.size]
        case Text(text) if len(labels.starts):
            return [text[start:end] for start, end in zip(labels.starts, labels.ends, strict=True)]
    return [str(number) for number in range(labels.size)]


class _Classification:
    """Classes of the whole instance from scores [class]; equal ones in the model's order."""

    def __init__(self, classes: model_pb2.ClassesDescription) -> None:
        self._output = classes.output
        self._activation = classes.activation
        self._named = _Named(classes)

    @property
    def by_sizes(self) -> bool:
        return not self._named.points_at

    def build(self, answer: Answered, most: int) -> Classes:
        likely = probabilities(answer.outputs[self._output].reshape(-1), self._activation)
        order = best_of_rows(likely, self._named.most(most))
        return Classes(self._named.of(answer).of(order), order.tolist(), likely[order].tolist())

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        return self._named.bytes(row, most, 24)


class TaggingBuilder:
    """Classes of entries of a label set, from scores [entry, class]: of all, of words, or of tokens with one id."""

    def __init__(self, classes: model_pb2.ClassesDescription, output: model_pb2.OutputDescription) -> None:
        self._label_set = classes.label_set
        self._output = classes.output
        self._entries = output.dimensions[0]
        self._activation = classes.activation
        self._named = _Named(classes)
        self._distinct = classes.distinct
        self._of_words = classes.words
        self._token_id = classes.token_id if classes.HasField("token_id") else None

    @property
    def by_sizes(self) -> bool:
        return self._token_id is None and not self._named.points_at

    def build(self, answer: Answered, most: int) -> Tags:
        scores, entries = answer.outputs[self._output], self.selected(answer)
        if entries is not None:
            scores = scores[entries[0]]
        likely = probabilities(scores, self._activation)
        order = best_of_rows(likely, self._named.most(most))
        chances = np.take_along_axis(likely, order, axis=-1).ravel().tolist()
        names = self._named.of(answer).of(order.ravel())
        chosen = None if entries is None else (entries[0].tolist(), entries[1].tolist())
        return Tags(self._label_set, order.shape[-1], names, order.ravel().tolist(), chances, chosen)

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        entries = self._entries.size or row.sizes.get(self._entries.name, 1)
        if self._token_id is not None:
            entries = sum(each == self._token_id for each in row.labels[self._label_set].ids)
        return entries * (self._named.bytes(row, most, 13) + 12) + 48

    def selected(self, answer: Answered) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
        """Find the first entry and the end of each row; None for all entries."""
        found = self._rows(answer)
        if not self._distinct:
            return found
        firsts, ends = found if found is not None else _each(len(answer.outputs[self._output]))
        _, first = np.unique(answer.outputs[self._output][firsts].argmax(-1), return_index=True)
        repeated = np.setdiff1d(np.arange(len(firsts)), first)
        count = repeated[0] if len(repeated) else len(firsts)
        return firsts[:count], ends[:count]

    def _rows(self, answer: Answered) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
        if self._token_id is not None:
            places = np.flatnonzero(np.asarray(answer.labels[self._label_set].ids) == self._token_id)
            return places, places + 1
        words = np.asarray(answer.labels[self._label_set].words) if self._of_words else np.empty(0)
        if not len(words):  # the caller sent tensors, of which nobody knows the words
            return None
        begins = np.flatnonzero(np.diff(words, prepend=-2))
        ends = np.append(begins[1:], len(words))
        real = words[begins] >= 0
        return begins[real], ends[real]


def _each(count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return np.arange(count), np.arange(1, count + 1)


class _Embedding:
    """A vector, as it is put out."""

    by_sizes = True

    def __init__(self, output: model_pb2.OutputDescription) -> None:
        self._output = output

    def build(self, answer: Answered, most: int) -> Embedding:
        return Embedding(np.asarray(answer.outputs[self._output.name], dtype=np.float32).reshape(-1))

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        axes = (each.size or row.sizes.get(each.name) or each.maximum or 1 for each in self._output.dimensions)
        return 4 * math.prod(axes) + 32


class _TokenVectors:
    """A vector for each token, as they are put out."""

    by_sizes = True

    def __init__(self, described: model_pb2.TokenVectorsDescription, output: model_pb2.OutputDescription) -> None:
        self._label_set = described.label_set
        self._vectors = _Embedding(output)
        self._output = output.name

    def build(self, answer: Answered, most: int) -> TokenVectors:
        return TokenVectors(self._label_set, np.asarray(answer.outputs[self._output], dtype=np.float32))

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        return self._vectors.size(row, steps, most) + len(self._label_set.encode()) + 16


class _Regression:
    """Numbers [target], each with its name and unit."""

    by_sizes = True

    def __init__(self, regression: model_pb2.RegressionDescription) -> None:
        self._output = regression.output
        self._targets = [(each.name, each.unit) for each in regression.targets]

    def build(self, answer: Answered, most: int) -> Numbers:
        values = answer.outputs[self._output].reshape(-1).tolist()
        pairs = zip(self._targets, values, strict=False)
        return Numbers([Number(name, value, unit) for (name, unit), value in pairs])

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        return sum(len(name.encode()) + len(unit.encode()) + 24 for name, unit in self._targets)


class _Boxes:
    """Objects in an image, from scores [query, class] and boxes [query, 4] (Carion et al. 2020, section 3).

    A query has the probability of its best class; the last class, "no object", takes part in the softmax alone.
    """

    by_sizes = True

    def __init__(self, boxes: model_pb2.BoxesDescription, scores: model_pb2.OutputDescription) -> None:
        self._described = boxes
        self._queries = scores.dimensions[0].size
        self._names = _ClassNames(boxes.labels)

    def build(self, answer: Answered, most: int) -> Boxes:
        it = self._described
        likely = probabilities(answer.outputs[it.scores_output], model_pb2.ACTIVATION_SOFTMAX)[:, :-1]
        classes, best = likely.argmax(axis=-1), likely.max(axis=-1)
        queries = np.argsort(-best, kind="stable")
        queries = queries[best[queries] > it.threshold][: most or None]
        region = _region(answer.labels[it.grid])
        edges = _edges(answer.outputs[it.boxes_output][queries], region or (0.0, 0.0, 1.0, 1.0))
        columns = (
            self._names.of(classes[queries]),
            classes[queries].tolist(),
            best[queries].tolist(),
            map(tuple, edges.tolist()),
            queries.tolist(),
        )
        return Boxes(it.label_set, [Box(*each) for each in zip(*columns, strict=True)], relative=region is None)

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        boxes = min(most or self._queries, self._queries)
        return boxes * self._names.bytes(1, 48) + len(self._described.label_set.encode()) + 16


def _region(grid: Labels) -> tuple[float, float, float, float] | None:
    """Return the part of an image that a grid covers: left, top, right, bottom; None where tensors were sent."""
    if grid.grid is None or not grid.grid.HasField("region"):
        return None
    region = grid.grid.region
    return region.left, region.top, region.right, region.bottom


def _edges(boxes: Array, region: tuple[float, float, float, float]) -> Doubles:
    """Return left, top, right and bottom [box, 4] of boxes [box, 4] that state centre and size as parts of a region."""
    centre, size = np.asarray(boxes[:, :2], np.float64), np.asarray(boxes[:, 2:], np.float64)
    parts = np.concatenate([centre - size / 2, centre + size / 2], axis=1)
    left, top, right, bottom = region
    return np.asarray(parts * np.tile([right - left, bottom - top], 2) + np.tile([left, top], 2))


class _Sequences:
    """Generated sequences."""

    by_sizes = True

    def build(self, answer: Answered, most: int) -> Sequences:
        return Sequences(answer.sequences)

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        return sum(64 + 48 * count for count in steps)  # a token: its id, its probability and its part of the text


class SpansBuilder:
    """The best spans of a text, from scores of their first and last tokens.

    Special tokens are in no span, and no span reaches from one text into another. Where the description names a part of
    a pair, probabilities are over the tokens of that part, and over the first token of the row if it stands for "no
    span answers" (Devlin et al. 2019, section 4.3).
    """

    by_sizes = False

    def __init__(self, spans: model_pb2.SpansDescription, description: model_pb2.ModelDescription) -> None:
        self._start, self._end, self._tokens = spans.start_output, spans.end_output, spans.label_set
        self._part = spans.part
        self._has_none = spans.first_token_is_none
        self._input = next(each.input for each in description.label_sets if each.name == spans.label_set)

    def build(self, answer: Answered, most: int) -> Spans:
        labels, value = answer.labels[self._tokens], answer.instance.get(self._input)
        found, none = self.best(answer)
        return Spans([_span(labels, value, *each) for each in found], none)

    def best(self, answer: Answered) -> tuple[list[tuple[int, int, float]], float | None]:
        """Find the most probable spans (first token, last token, probability), best first, and the probability of
        none.
        """
        labels, value = answer.labels[self._tokens], answer.instance.get(self._input)
        compared = self.compared(answer)
        places = compared[1:] if self._has_none else compared
        if not len(places):
            return [], 1.0 if self._has_none else None
        start = probabilities(answer.outputs[self._start][compared], model_pb2.ACTIVATION_SOFTMAX)
        end = probabilities(answer.outputs[self._end][compared], model_pb2.ACTIVATION_SOFTMAX)
        none = None
        if self._has_none:
            none, start, end = float(start[0] * end[0]), start[1:], end[1:]
        found = []
        for own in _texts(labels, places, isinstance(value, Sentences)):
            spans = best_spans(start[own], end[own], MOST_SPANS)
            found += [(int(places[own[first]]), int(places[own[last]]), chance) for first, last, chance in spans]
        found.sort(key=lambda each: -each[2])
        return found[:MOST_SPANS], none

    def text(self, answer: Answered, first: int, last: int) -> str:
        """Quote a span; empty where tensors were sent."""
        return _span(answer.labels[self._tokens], answer.instance.get(self._input), first, last, 0.0).text

    def compared(self, answer: Answered) -> npt.NDArray[np.intp]:
        """Name the tokens that share the probabilities; the first one of the row stands for none, where it does."""
        labels = answer.labels[self._tokens]
        special = np.zeros(labels.size, bool)
        special[: len(labels.special)] = labels.special
        possible = ~special & _is_of_part(labels, self._part) if self._part else ~special
        places = np.flatnonzero(possible)
        return np.append(0, places) if self._has_none else places

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        longest = max(row.labels[self._tokens].ends, default=0)
        return MOST_SPANS * (4 * longest + 48)  # each can quote all of a text, whose code points take up to 4 bytes


def _is_of_part(labels: Labels, part: str) -> npt.NDArray[np.bool_]:
    """Tell which tokens are of a part of a pair, `first` or `second`."""
    if not len(labels.input_indices):
        return np.full(labels.size, labels.inputs[:1] != () and labels.inputs[0].rpartition(".")[2] == part)
    numbers = [number for number, name in enumerate(labels.inputs) if name.rpartition(".")[2] == part]
    return np.isin(np.asarray(labels.input_indices), numbers)


def _texts(labels: Labels, places: npt.NDArray[np.intp], in_sentences: bool) -> Iterator[npt.NDArray[np.intp]]:
    """Give the tokens of each text apart, as indices into `places`."""
    of_text = np.zeros(len(places), dtype=np.intp)
    if len(labels.input_indices):
        of_text = np.asarray(labels.input_indices)[places]
    if in_sentences and len(labels.parents):
        of_text = np.asarray(labels.parents)[places]
    for text in np.unique(of_text):
        yield np.flatnonzero(of_text == text)


def _span(labels: Labels, value: object, first: int, last: int, probability: float) -> Span:
    """Name the text that a span lies in, and quote it; there is none where tensors were sent."""
    start, end = (labels.starts[first], labels.ends[last]) if len(labels.starts) else (0, 0)
    match value:
        case Text(text):
            return Span(start, end, probability, text[start:end])
        case Pair(one, other):
            name = labels.inputs[labels.input_indices[first] if len(labels.input_indices) else 0]
            part = name.rpartition(".")[2]
            return Span(start, end, probability, (other if part == "second" else one)[start:end], part)
        case Sentences(texts):
            sentence = labels.parents[first]
            return Span(start, end, probability, texts[sentence][start:end], sentence=sentence)
    return Span(start, end, probability)
