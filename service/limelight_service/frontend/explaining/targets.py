"""Targets: what of an answer is explained, and its score in an answer.

A probability's score is its natural logarithm, worked out from raw scores: a difference of scores says how many times
more probable something is, however improbable it has become.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limelight.base.suggestions import similar
from limelight.v1 import model_pb2
from limelight_bundle.errors import InputError, OutOfRangeError, Path
from limelight_bundle.values import Array
from limelight_service.attention.members import members
from limelight_service.attention.options import Group
from limelight_service.errors import WrongModelError
from limelight_service.frontend.explaining.asked import AskedTarget, ScoreKind
from limelight_service.frontend.explaining.explanation import Explained
from limelight_service.frontend.explaining.units import Indices
from limelight_service.frontend.models import Model
from limelight_service.frontend.results import Answered, SpansBuilder, TaggingBuilder, entry_texts
from limelight_service.ipc import boundary

_FIELD: Path = ("target",)
_GONE = -100.0  # the log-probability of a span or an entry that was erased and leaves no place behind
_MOST_NAMED = 12


@dataclass(frozen=True)
class Outcome:
    """The answer to a changed row. kept: as `Changed.kept`."""

    outputs: Mapping[str, Array]
    sequences: Sequence[boundary.Sequence]
    kept: Mapping[str, Indices]


class Found(ABC):
    """A target in the answer to one instance."""

    explained: Explained

    @abstractmethod
    def change(self, outcome: Outcome) -> float:
        """Give the score in a changed row's answer less that of the usual one."""


class Target(ABC):
    """A target of a call, checked as far as it can be without an answer.

    outputs: raw ones that scores are of.
    """

    fields: Collection[str] = ()  # of `ExplainTarget.kind` that it takes
    takes_entry = False

    def __init__(self, model: Model, described: model_pb2.ResultDescription, asked: AskedTarget) -> None:
        self.model, self.asked, self.name = model, asked, described.name
        self.outputs: frozenset[str] = frozenset()
        kind = asked.kind
        if kind and kind not in self.fields:
            takes = f"; set {' or '.join(self.fields)}, or nothing" if self.fields else "; leave it out"
            raise InputError((*_FIELD, kind), f"does not apply to {described.name}{takes}")
        if asked.entry is not None and not self.takes_entry:
            raise InputError((*_FIELD, "entry"), f"does not apply to {described.name}, which has no entries")

    @abstractmethod
    def find(self, answer: Answered) -> Found:
        """Find the target in the usual answer. Raises: InputError for what the instance has not."""


def target_of(model: Model, asked: AskedTarget) -> Target:
    """Choose the target that a request names. Raises: InputError; WrongModelError for a model without results."""
    results = {each.name: each for each in model.schema.results}
    if not results:
        raise WrongModelError(f"{model.schema.name} has raw outputs only, of which nothing is explained")
    if asked.result and asked.result not in results:
        there = f"{', '.join(results)}{similar(asked.result, results)}"
        raise InputError((*_FIELD, "result"), f"is {asked.result!r}, which the model has not; it has {there}")
    described = results[asked.result] if asked.result else next(iter(results.values()))
    kind = described.WhichOneof("kind")
    if kind == "classes":
        kind = "tagging" if described.classes.label_set else kind
    if kind is None or kind not in _KINDS:
        raise WrongModelError(f"{model.schema.name} gives {described.name}, of which nothing is explained")
    return _KINDS[kind](model, described, asked)


def _log_softmax(scores: Array) -> Array:
    values = np.asarray(scores, np.float64)
    values = values - values.max(-1, keepdims=True)
    return np.asarray(values - np.log(np.exp(values).sum(-1, keepdims=True)))


def log_probabilities(scores: Array, activation: int) -> Array:
    """Turn class scores [..., class] into logarithms of probabilities."""
    values = np.asarray(scores, np.float64)
    if activation == model_pb2.ACTIVATION_SOFTMAX:
        return _log_softmax(values)
    if activation == model_pb2.ACTIVATION_SIGMOID:
        return np.asarray(-np.logaddexp(0, -values))
    return np.log(np.maximum(values, np.exp(_GONE)))


def _class_index(
    asked: AskedTarget, labels: Sequence[str], count: int, result: str, what: str = "class", several: str = "classes"
) -> int | None:
    """Give the class that a request names; None for the model's own. Raises: InputError naming those there are."""
    if asked.label is not None:
        if asked.label not in labels:
            named = ", ".join(labels[:_MOST_NAMED]) + (", …" if len(labels) > _MOST_NAMED else "")
            there = f"{named}{similar(asked.label, labels)}"
            of = "the model" if result in (what, f"{what}s") else result
            raise InputError(
                (*_FIELD, "label"), f"is {asked.label[:64]!r}, which is no {what} of {of}; there are {there}"
            )
        return list(labels).index(asked.label)
    if asked.index is not None and not 0 <= asked.index < count:
        raise OutOfRangeError((*_FIELD, "index"), f"is {asked.index}; there are {count} {several}, from 0")
    return asked.index


def _named(labels: Sequence[str], index: int) -> str:
    return labels[index] if index < len(labels) else ""


def _entry(asked: int, size: int, what: str) -> int:
    """Read an entry. Raises: OutOfRangeError."""
    if not -size <= asked < size:
        raise OutOfRangeError((*_FIELD, "entry"), f"is {asked}; there are {size} {what}")
    return asked % size


class _OfClasses(Target):
    """A class of the instance."""

    fields = ("label", "index")

    def __init__(self, model: Model, described: model_pb2.ResultDescription, asked: AskedTarget) -> None:
        super().__init__(model, described, asked)
        self.classes = described.classes
        self.outputs = frozenset({self.classes.output})
        output = next(each for each in model.schema.description.outputs if each.name == self.classes.output)
        count = output.dimensions[-1].size or len(self.classes.labels)
        points = self.classes.class_label_set  # whose entries only the answer knows
        self.index = None if points else _class_index(asked, self.classes.labels, count, described.name)

    def find(self, answer: Answered) -> Found:
        scores = self.scores(answer.outputs)
        labels, index = self.named(answer)
        index = int(scores.argmax()) if index is None else index
        explained = Explained(self.name, ScoreKind.LOG_PROBABILITY, float(scores[index]), _named(labels, index), index)
        return _FoundClass(self, explained)

    def named(self, answer: Answered) -> tuple[Sequence[str], int | None]:
        """Give the names of the classes, and the one that a request names; None for the model's own."""
        points = self.classes.class_label_set
        if not points:
            return self.classes.labels, self.index
        labels = entry_texts(answer.labels[points], answer.instance)
        return labels, _class_index(self.asked, labels, len(labels), self.name, "entry", "entries")

    def moved(self, classes: Indices, outcome: Outcome) -> Indices:
        """Where classes stand in a changed row: entries move as others are erased, and are -1 once they are gone."""
        places = outcome.kept.get(self.classes.class_label_set)
        return classes if places is None else places[classes]

    def scores(self, outputs: Mapping[str, Array]) -> Array:
        return log_probabilities(outputs[self.classes.output].reshape(-1), self.classes.activation)


class _FoundClass(Found):
    def __init__(self, target: _OfClasses, explained: Explained) -> None:
        self._target, self.explained = target, explained

    def change(self, outcome: Outcome) -> float:
        place = int(self._target.moved(np.array([self.explained.index]), outcome)[0])
        score = float(self._target.scores(outcome.outputs)[place]) if place >= 0 else _GONE
        return score - self.explained.score


class _OfTags(_OfClasses):
    """The class of an entry, or the classes of all entries."""

    takes_entry = True

    def find(self, answer: Answered) -> Found:
        builder = self.model.builders[self.name]
        assert isinstance(builder, TaggingBuilder)
        scores = log_probabilities(answer.outputs[self.classes.output], self.classes.activation)
        selected = builder.selected(answer)
        firsts = np.arange(len(scores)) if selected is None else selected[0]
        if not len(firsts):
            raise InputError(_FIELD, f"is none: {self.name} of this instance has no entries")
        own = scores[firsts].argmax(-1)
        labels, index = self.named(answer)
        asked = self.asked.entry
        if asked is None and index is None:
            return _FoundTags(self, firsts, own, scores, Explained(self.name, ScoreKind.LOG_PROBABILITY, 0.0))
        if asked is None:
            place = int(scores[firsts, index].argmax())
        else:
            entry = _entry(asked, len(scores), self.classes.label_set)
            ends = firsts + 1 if selected is None else selected[1]
            holding = np.flatnonzero((firsts <= entry) & (entry < ends))
            if not len(holding):
                raise InputError((*_FIELD, "entry"), f"is {asked}, which has no class")
            place = int(holding[0])
        index = int(own[place]) if index is None else index
        label, entry = _named(labels, index), int(firsts[place])
        explained = Explained(self.name, ScoreKind.LOG_PROBABILITY, 0.0, label, index, entry)
        return _FoundTags(self, firsts[place : place + 1], np.array([index]), scores, explained)


class _FoundTags(Found):
    def __init__(
        self, target: _OfTags, entries: Indices, classes: Indices, scores: Array, explained: Explained
    ) -> None:
        self._target, self._entries, self._classes = target, entries, classes
        self._usual = scores[entries, classes]
        self.explained = replace(explained, score=float(self._usual.sum()))

    def change(self, outcome: Outcome) -> float:
        """Compare the entries that are in both; the class of a single one that is gone has no place left."""
        classes = self._target.classes
        scores = log_probabilities(outcome.outputs[classes.output], classes.activation)
        kept = outcome.kept.get(classes.label_set)
        places = self._entries if kept is None else kept[self._entries]
        moved = self._target.moved(self._classes, outcome)
        there = (places >= 0) & (moved >= 0)
        if self.explained.entry is not None and not there.any():
            return _GONE - self.explained.score
        return float((scores[places[there], moved[there]] - self._usual[there]).sum())


class _OfSpans(Target):
    """A span of the text."""

    fields = ("span",)

    def __init__(self, model: Model, described: model_pb2.ResultDescription, asked: AskedTarget) -> None:
        super().__init__(model, described, asked)
        self.spans = described.spans
        self.outputs = frozenset({self.spans.start_output, self.spans.end_output})

    def find(self, answer: Answered) -> Found:
        builder = self.model.builders[self.name]
        assert isinstance(builder, SpansBuilder)
        compared = builder.compared(answer)
        if self.asked.span is None:
            best, _ = builder.best(answer)
            if not best:
                raise InputError(_FIELD, "is none: the instance has no text that a span could be of")
            first, last, _ = best[0]
        else:
            field = (*_FIELD, "span")
            try:
                inside = members(Group("", spans=(self.asked.span,)), self.spans.label_set, answer.labels, _FIELD)
            except InputError as error:
                raise type(error)((*field, *error.path[3:]), error.message) from error
            first, last = int(inside[0]), int(inside[-1])
            if not np.isin([first, last], compared).all():
                raise InputError(field, "is not of the text that holds the spans")
        return _FoundSpan(self, answer, compared, first, last, builder.text(answer, first, last))


class _FoundSpan(Found):
    def __init__(self, target: _OfSpans, answer: Answered, compared: Indices, first: int, last: int, text: str) -> None:
        self._target, self._compared, self._ends = target, compared, (first, last)
        score = self._score(answer.outputs, {})
        self.explained = Explained(target.name, ScoreKind.LOG_PROBABILITY, score, text)

    def change(self, outcome: Outcome) -> float:
        return self._score(outcome.outputs, outcome.kept) - self.explained.score

    def _score(self, outputs: Mapping[str, Array], kept: Mapping[str, Indices]) -> float:
        spans, total = self._target.spans, 0.0
        moved = kept.get(spans.label_set)
        places = self._compared if moved is None else moved[self._compared]
        for name, token in zip((spans.start_output, spans.end_output), self._ends, strict=True):
            here = np.flatnonzero((self._compared == token) & (places >= 0))
            if not len(here):
                return _GONE
            scores = _log_softmax(outputs[name].reshape(-1)[places[places >= 0]])
            total += float(scores[np.count_nonzero(places[: here[0]] >= 0)])
        return total


class _OfBoxes(Target):
    """The class of a query that finds boxes."""

    fields = ("label", "index")
    takes_entry = True

    def __init__(self, model: Model, described: model_pb2.ResultDescription, asked: AskedTarget) -> None:
        super().__init__(model, described, asked)
        self.boxes = described.boxes
        self.outputs = frozenset({self.boxes.scores_output})
        labels = self.boxes.labels
        self.index = _class_index(asked, labels, len(labels), described.name)

    def find(self, answer: Answered) -> Found:
        scores = self.scores(answer.outputs)
        real = scores[:, :-1]  # the last class stands for no object
        if self.asked.entry is not None:
            query = _entry(self.asked.entry, len(scores), self.boxes.label_set)
        else:
            query = int((real.max(-1) if self.index is None else real[:, self.index]).argmax())
        index = int(real[query].argmax()) if self.index is None else self.index
        return _FoundBox(self, query, index, float(scores[query, index]))

    def scores(self, outputs: Mapping[str, Array]) -> Array:
        return _log_softmax(outputs[self.boxes.scores_output])


class _FoundBox(Found):
    def __init__(self, target: _OfBoxes, query: int, index: int, score: float) -> None:
        self._target = target
        label = _named(target.boxes.labels, index)
        self.explained = Explained(target.name, ScoreKind.LOG_PROBABILITY, score, label, index, query)

    def change(self, outcome: Outcome) -> float:
        it = self.explained
        return float(self._target.scores(outcome.outputs)[it.entry, it.index]) - it.score


class _OfNumbers(Target):
    """A number of a regression."""

    fields = ("label", "index")

    def __init__(self, model: Model, described: model_pb2.ResultDescription, asked: AskedTarget) -> None:
        super().__init__(model, described, asked)
        self.regression = described.regression
        self.outputs = frozenset({self.regression.output})
        self.names = [each.name for each in self.regression.targets]
        self.index = _class_index(asked, self.names, len(self.names), described.name, "number") or 0

    def find(self, answer: Answered) -> Found:
        return _FoundNumber(self, self.value(answer.outputs))

    def value(self, outputs: Mapping[str, Array]) -> float:
        return float(outputs[self.regression.output].reshape(-1)[self.index])


class _FoundNumber(Found):
    def __init__(self, target: _OfNumbers, value: float) -> None:
        self._target = target
        self.explained = Explained(target.name, ScoreKind.VALUE, value, _named(target.names, target.index))

    def change(self, outcome: Outcome) -> float:
        return self._target.value(outcome.outputs) - self.explained.score


class OfVectors(Target):
    """The cosine similarity of a vector to that of another instance, or to the usual one.

    other: the other instance's vector, once it is known.
    """

    fields = ("similar_to",)

    def __init__(self, model: Model, described: model_pb2.ResultDescription, asked: AskedTarget) -> None:
        super().__init__(model, described, asked)
        self.output = described.embedding.output
        self.outputs = frozenset({self.output})
        self.other: Array | None = None

    def find(self, answer: Answered) -> Found:
        return _FoundVector(self, self.vector(answer.outputs) if self.other is None else self.other, answer)

    def vector(self, outputs: Mapping[str, Array]) -> Array:
        """Give the vector of an answer, of length 1 unless it is 0."""
        vector = np.asarray(outputs[self.output], np.float64).reshape(-1)
        return np.asarray(vector / (np.linalg.norm(vector) or 1.0))


class _FoundVector(Found):
    def __init__(self, target: OfVectors, other: Array, answer: Answered) -> None:
        self._target, self._other = target, other
        score = float(target.vector(answer.outputs) @ other)
        self.explained = Explained(target.name, ScoreKind.SIMILARITY, score)

    def change(self, outcome: Outcome) -> float:
        return float(self._target.vector(outcome.outputs) @ self._other) - self.explained.score


class OfSequences(Target):
    """A generated sequence, or one of its tokens. Changed rows are forced to put it out."""

    fields = ("text",)
    takes_entry = True

    def __init__(self, model: Model, described: model_pb2.ResultDescription, asked: AskedTarget) -> None:
        super().__init__(model, described, asked)
        schema = model.schema
        if not schema.target_tensor:
            raise WrongModelError(
                f"{schema.name} takes no target, so its output cannot be forced: import or export it anew, with one"
            )

    def find(self, answer: Answered) -> Found:
        steps = slice(self.model.schema.before_target, len(answer.sequences[0].token_ids))
        return _FoundSequence(self, answer.sequences[0], steps, answer)


class _FoundSequence(Found):
    def __init__(self, target: OfSequences, sequence: boundary.Sequence, steps: slice, answer: Answered) -> None:
        asked, self._steps = target.asked.entry, steps
        text, entry = sequence.text, None
        if asked is not None:
            entry = _entry(asked, len(sequence.token_ids), target.model.schema.steps_label)
            self._steps = slice(entry, entry + 1)
            labels = answer.labels.get(target.model.schema.steps_label)
            text = labels.texts[entry] if labels is not None else ""
        score = self._sum(sequence)
        self.explained = Explained(target.name, ScoreKind.LOG_PROBABILITY, score, text, entry=entry)

    def change(self, outcome: Outcome) -> float:
        return self._sum(outcome.sequences[0]) - self.explained.score

    def _sum(self, sequence: boundary.Sequence) -> float:
        return float(np.sum(sequence.log_probabilities[self._steps], dtype=np.float64))


_KINDS: Mapping[str, type[Target]] = {
    "classes": _OfClasses,
    "tagging": _OfTags,
    "spans": _OfSpans,
    "boxes": _OfBoxes,
    "regression": _OfNumbers,
    "embedding": OfVectors,
    "sequence": OfSequences,
}
