"""Typed results from raw outputs: classes with probabilities, tags, spans, sequences, vectors, numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt

from bundle.rows import Labels, Row
from bundle.values import Array, Instance, Pair, Sentences, Text
from bundle.wire import to_tensor
from limelight.v1 import model_pb2, service_pb2
from service.engine import types
from service.ranking import best_of_rows

Doubles = npt.NDArray[np.float64]
MOST_SPANS = 5

_FINISH = {
    types.FinishReason.END: service_pb2.FINISH_REASON_END,
    types.FinishReason.LENGTH: service_pb2.FINISH_REASON_LENGTH,
    types.FinishReason.STOP: service_pb2.FINISH_REASON_STOP,
    types.FinishReason.TARGET: service_pb2.FINISH_REASON_TARGET,
}


class ResultBuilder(Protocol):
    """Turns outputs of an answer into one typed result.

    label_set: the one that the result refers to; empty for none.
    """

    label_set: str

    def fill(self, result: service_pb2.Result, answer: types.Answer, instance: Instance, most: int) -> None:
        """Fill in the result for an answer and the instance that it answers; most: classes of each entry, 0 for all."""

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        """Bound its bytes from above; steps: of each sequence, most: classes of each entry, 0 for all."""


def result_builders(description: model_pb2.ModelDescription) -> dict[str, ResultBuilder]:
    """Choose, once a model, how its outputs become typed results: by name, in the description's order."""
    outputs = {each.name: each for each in description.outputs}
    return {each.name: _builder(each, description, outputs) for each in description.results}


def probabilities(scores: Array, activation: int) -> Doubles:
    """Turn class scores [..., class] into probabilities."""
    values = np.asarray(scores, dtype=np.float64)
    if activation == model_pb2.ACTIVATION_SIGMOID:
        # exp of what is never positive cannot overflow.
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


def sequence_to_wire(sequence: types.Sequence) -> service_pb2.Sequence:
    """Put a sequence into its message."""
    return service_pb2.Sequence(
        text=sequence.text,
        token_ids=sequence.token_ids,
        log_probabilities=sequence.log_probabilities,
        score=sequence.score,
        finish_reason=_FINISH[sequence.finish_reason],
    )


def _builder(
    result: model_pb2.ResultDescription,
    description: model_pb2.ModelDescription,
    outputs: Mapping[str, model_pb2.OutputDescription],
) -> ResultBuilder:
    match result.WhichOneof("kind"):
        case "classes" if result.classes.label_set:
            return _Tagging(result.classes, outputs[result.classes.output])
        case "classes":
            return _Classification(result.classes)
        case "embedding":
            return _Embedding(outputs[result.embedding.output])
        case "spans":
            return _Spans(result.spans, description)
        case "regression":
            return _Regression(result.regression)
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


class _Classification:
    """Classes of the whole instance from scores [class], most probable first; equal ones in the model's order."""

    label_set = ""

    def __init__(self, classes: model_pb2.ClassesDescription) -> None:
        self._output = classes.output
        self._activation = classes.activation
        self._names = _ClassNames(classes.labels)

    def fill(self, result: service_pb2.Result, answer: types.Answer, _: Instance, most: int) -> None:
        likely = probabilities(answer.outputs[self._output].reshape(-1), self._activation)
        order = best_of_rows(likely, most)
        result.classification.SetInParent()
        classes = result.classification.classes
        for label, index, probability in zip(
            self._names.of(order), order.tolist(), likely[order].tolist(), strict=True
        ):
            classes.add(label=label, index=index, probability=probability)

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        return self._names.bytes(most, 24)


class _Tagging:
    """Classes of each entry of a label set, from scores [entry, class]."""

    def __init__(self, classes: model_pb2.ClassesDescription, output: model_pb2.OutputDescription) -> None:
        self.label_set = classes.label_set
        self._output = classes.output
        self._entries = output.dimensions[0]
        self._activation = classes.activation
        self._names = _ClassNames(classes.labels)

    def fill(self, result: service_pb2.Result, answer: types.Answer, _: Instance, most: int) -> None:
        likely = probabilities(answer.outputs[self._output], self._activation)
        order = best_of_rows(likely, most)
        tagging = result.tagging
        tagging.label_set = self.label_set
        tagging.classes_per_entry = order.shape[-1]
        tagging.labels.extend(self._names.of(order.ravel()))
        tagging.indices.extend(order.ravel().tolist())
        tagging.probabilities.extend(np.take_along_axis(likely, order, axis=-1).ravel().tolist())

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        entries = self._entries.size or row.sizes.get(self._entries.name, 1)
        return entries * self._names.bytes(most, 13) + 32


class _Embedding:
    """A vector, as it is put out."""

    label_set = ""

    def __init__(self, output: model_pb2.OutputDescription) -> None:
        self._output = output

    def fill(self, result: service_pb2.Result, answer: types.Answer, _: Instance, most: int) -> None:
        vector = np.asarray(answer.outputs[self._output.name], dtype=np.float32).reshape(-1)
        result.embedding.vector.CopyFrom(to_tensor(vector))

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        axes = (each.size or row.sizes.get(each.name) or each.maximum or 1 for each in self._output.dimensions)
        return 4 * math.prod(axes) + 32


class _Regression:
    """Numbers [target], each with what it is and its unit."""

    label_set = ""

    def __init__(self, regression: model_pb2.RegressionDescription) -> None:
        self._output = regression.output
        self._targets = [(each.name, each.unit) for each in regression.targets]

    def fill(self, result: service_pb2.Result, answer: types.Answer, _: Instance, most: int) -> None:
        result.regression.SetInParent()
        values = answer.outputs[self._output].reshape(-1).tolist()
        for (name, unit), value in zip(self._targets, values, strict=False):
            result.regression.numbers.add(name=name, value=value, unit=unit)

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        return sum(len(name.encode()) + len(unit.encode()) + 24 for name, unit in self._targets)


class _Sequences:
    """Token sequences, best first."""

    label_set = ""

    def fill(self, result: service_pb2.Result, answer: types.Answer, _: Instance, most: int) -> None:
        result.sequences.sequences.extend(map(sequence_to_wire, answer.sequences))

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        return sum(64 + 48 * count for count in steps)  # a token: its id, its probability and its part of the text


class _Spans:
    """The best spans of a text, from scores of their first and last tokens.

    Special tokens are in no span, and no span reaches from one text into another.
    """

    label_set = ""

    def __init__(self, spans: model_pb2.SpansDescription, description: model_pb2.ModelDescription) -> None:
        self._start, self._end, self._tokens = spans.start_output, spans.end_output, spans.label_set
        self._input = next(each.input for each in description.label_sets if each.name == spans.label_set)

    def fill(self, result: service_pb2.Result, answer: types.Answer, instance: Instance, most: int) -> None:
        labels, value = answer.labels[self._tokens], instance.get(self._input)
        special = np.zeros(labels.size, bool)
        special[: len(labels.special)] = labels.special
        places = np.flatnonzero(~special)
        result.spans.SetInParent()
        if not len(places):
            return
        start = probabilities(answer.outputs[self._start][places], model_pb2.ACTIVATION_SOFTMAX)
        end = probabilities(answer.outputs[self._end][places], model_pb2.ACTIVATION_SOFTMAX)
        found = []
        for own in _texts(labels, places, isinstance(value, Sentences)):
            spans = best_spans(start[own], end[own], MOST_SPANS)
            found += [(int(places[own[first]]), int(places[own[last]]), chance) for first, last, chance in spans]
        found.sort(key=lambda each: -each[2])
        for first, last, probability in found[:MOST_SPANS]:
            span = result.spans.spans.add(probability=probability)
            if len(labels.starts):
                span.start, span.end = labels.starts[first], labels.ends[last]
            _name_text(span, labels, first, value)

    def size(self, row: Row, steps: Sequence[int], most: int) -> int:
        longest = max(row.labels[self._tokens].ends, default=0)
        return MOST_SPANS * (4 * longest + 48)  # each can quote all of a text, whose code points take up to 4 bytes


def _texts(labels: Labels, places: npt.NDArray[np.intp], in_sentences: bool) -> Iterator[npt.NDArray[np.intp]]:
    """Give the tokens of each text apart, as indices into `places`."""
    of_text = np.zeros(len(places), dtype=np.intp)
    if len(labels.input_indices):
        of_text = np.asarray(labels.input_indices)[places]
    if in_sentences and len(labels.parents):
        of_text = np.asarray(labels.parents)[places]
    for text in np.unique(of_text):
        yield np.flatnonzero(of_text == text)


def _name_text(
    span: service_pb2.Span,
    labels: Labels,
    first: int,
    value: object,
) -> None:
    """Say which text a span lies in, and quote it; there is none where tensors were sent."""
    match value:
        case Text(text):
            span.text = text[span.start : span.end]
        case Pair(one, other):
            name = labels.inputs[labels.input_indices[first] if len(labels.input_indices) else 0]
            span.part = name.rpartition(".")[2]
            span.text = (other if span.part == "second" else one)[span.start : span.end]
        case Sentences(texts):
            span.sentence = labels.parents[first]
            span.text = texts[span.sentence][span.start : span.end]
