"""Typed results from raw outputs: classes with probabilities, tags, spans, sequences, vectors."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from bundle.rows import Token
from bundle.values import Array, Instance, Pair, Sentences, Text
from bundle.wire import to_tensor
from limelight.v1 import model_pb2, service_pb2
from service.engine import types

Doubles = npt.NDArray[np.float64]
MOST_SPANS = 5

_FINISH = {
    types.FinishReason.END: service_pb2.FINISH_REASON_END,
    types.FinishReason.LENGTH: service_pb2.FINISH_REASON_LENGTH,
    types.FinishReason.STOP: service_pb2.FINISH_REASON_STOP,
    types.FinishReason.TARGET: service_pb2.FINISH_REASON_TARGET,
}

# Sets the result of a prediction from an answer and the instance that it answers.
Fill = Callable[[service_pb2.Prediction, types.Answer, Instance], None]


def result_of(description: model_pb2.ModelDescription) -> Fill:
    """Choose, once a model, how its outputs become a typed result."""
    result = description.result
    kind = result.WhichOneof("kind")
    if kind == "classes":
        outputs = {each.name: each for each in description.outputs}
        fill = _Classes(result.classes)
        tagging = len(outputs[result.classes.output].dimensions) == 2
        return fill.tagging if tagging else fill.classification
    if kind == "embedding":
        return _embedding(result.embedding.output)
    if kind == "spans":
        return _Spans(description)
    if kind == "sequence":
        return lambda prediction, answer, _: prediction.sequences.sequences.extend(
            map(sequence_to_wire, answer.sequences)
        )
    return lambda prediction, answer, instance: None


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


class _Classes:
    """Classes, most probable first; equal ones in the model's order."""

    def __init__(self, classes: model_pb2.ClassesDescription) -> None:
        self._output = classes.output
        self._activation = classes.activation
        self._labels = tuple(classes.labels)

    def classification(self, prediction: service_pb2.Prediction, answer: types.Answer, _: Instance) -> None:
        """Fill in the classes of the whole instance, from scores [class]."""
        self._add(prediction.classification, probabilities(answer.outputs[self._output].reshape(-1), self._activation))

    def tagging(self, prediction: service_pb2.Prediction, answer: types.Answer, _: Instance) -> None:
        """Fill in the classes of each entry, from scores [entry, class]."""
        prediction.tagging.SetInParent()
        for each in probabilities(answer.outputs[self._output], self._activation):
            self._add(prediction.tagging.entries.add(), each)

    def _add(self, message: service_pb2.Classification, likely: Doubles) -> None:
        order = np.argsort(-likely, kind="stable")
        classes, labels = message.classes, self._labels
        for index, probability in zip(order.tolist(), likely[order].tolist(), strict=True):
            classes.add(label=labels[index] if index < len(labels) else "", index=index, probability=probability)


class _Spans:
    """The best spans of a text, from scores of their first and last tokens. Special tokens are in no span."""

    def __init__(self, description: model_pb2.ModelDescription) -> None:
        self._spans = description.result.spans
        labels = next(each for each in description.label_sets if each.name == self._spans.label_set)
        self._input = labels.input
        tensors = [tensor.name for each in description.inputs if each.name == labels.input for tensor in each.tensors]
        self._second = len(tensors) > 1 and labels.tensor == tensors[1]

    def __call__(self, prediction: service_pb2.Prediction, answer: types.Answer, instance: Instance) -> None:
        """Fill in the spans."""
        tokens = answer.labels[self._spans.label_set].tokens
        real = np.array([not token.special for token in tokens], dtype=bool)
        if not real.any():
            prediction.spans.SetInParent()
            return
        places = np.flatnonzero(real)
        start = probabilities(
            answer.outputs[self._spans.start_output][: len(tokens)][real], model_pb2.ACTIVATION_SOFTMAX
        )
        end = probabilities(answer.outputs[self._spans.end_output][: len(tokens)][real], model_pb2.ACTIVATION_SOFTMAX)
        for first, last, probability in best_spans(start, end, MOST_SPANS):
            from_token, to_token = tokens[places[first]], tokens[places[last]]
            text = self._text(instance, from_token, to_token)
            prediction.spans.spans.add(text=text, start=from_token.start, end=to_token.end, probability=probability)

    def _text(self, instance: Instance, first: Token, last: Token) -> str:
        match instance.get(self._input):
            case Text(text):
                return text[first.start : last.end]
            case Pair(one, other):
                return (other if self._second else one)[first.start : last.end]
            case Sentences(texts) if first.parent == last.parent < len(texts):
                return texts[first.parent][first.start : last.end]
        return ""  # tensors were sent: there is no text


def _embedding(output: str) -> Fill:
    def fill(prediction: service_pb2.Prediction, answer: types.Answer, _: Instance) -> None:
        vector = np.asarray(answer.outputs[output], dtype=np.float32).reshape(-1)
        prediction.embedding.vector.CopyFrom(to_tensor(vector))

    return fill


def result_bytes(description: model_pb2.ModelDescription, sizes: Mapping[str, int], steps: Sequence[int]) -> int:
    """Bound the bytes of a typed result from above; sizes: of the instance's dimensions, steps: of each sequence."""
    result = description.result
    kind = result.WhichOneof("kind")
    if kind == "classes":
        one = sum(len(label.encode()) + 24 for label in result.classes.labels)
        output = next(each for each in description.outputs if each.name == result.classes.output)
        entries = sizes.get(output.dimensions[0].name, 1) if len(output.dimensions) == 2 else 1
        return entries * (one + 8)
    if kind == "sequence":
        return sum(64 + 48 * count for count in steps)  # a token: its id, its probability and its part of the text
    return 0  # an embedding is an output, too, which counts it; spans quote a little of what was sent
