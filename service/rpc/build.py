"""From the engine's answers to messages."""

import time
from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import replace

from bundle.errors import TooLargeError
from bundle.rows import Labels
from bundle.wire import labels_to_wire, to_tensor
from limelight.v1 import attention_pb2, service_pb2
from service.attention.apply import Applied, apply
from service.attention.labels import planned_labels
from service.attention.plan import AttentionPlan
from service.engine.types import Answer, SequenceMaps, Step, Strategy
from service.rpc.maps import map_to_wire
from service.rpc.prepare import CallOptions, PreparedInstance
from service.rpc.results import sequence_to_wire
from service.rpc.view import ModelView


def predict_response(
    view: ModelView, prepared: Sequence[PreparedInstance], answers: Sequence[Answer], options: CallOptions
) -> bytes:
    """Build and serialize the answer of Predict."""
    response = service_pb2.PredictResponse()
    for one, answer in zip(prepared, answers, strict=True):
        started = time.perf_counter_ns()
        prediction = response.predictions.add()
        fill_prediction(prediction, view, one, answer, options)
        prediction.provenance.encode_nanoseconds = time.perf_counter_ns() - started
    return _checked(response.SerializeToString(), options)


def attend_response(
    view: ModelView, prepared: Sequence[PreparedInstance], answers: Sequence[Answer], options: CallOptions
) -> tuple[bytes, int]:
    """Build and serialize the answer of Attend; also give the bytes of its weights."""
    response = service_pb2.AttendResponse()
    weights = 0
    for one, answer in zip(prepared, answers, strict=True):
        started = time.perf_counter_ns()
        attended = response.results.add()
        fill_prediction(attended.prediction, view, one, answer, options)
        assert options.plan is not None
        applied = apply(options.plan, answer.maps, answer.labels)
        weights += add_maps(attended.maps, applied)
        attended.prediction.label_sets.extend(map(labels_to_wire, applied.labels.values()))
        for number, other in enumerate(answer.other_sequences, 1):
            message = attended.other_sequences.add(sequence=number)
            weights += _add_sequence(message, view, answer, other, options.plan)
        attended.prediction.provenance.encode_nanoseconds = time.perf_counter_ns() - started
    return _checked(response.SerializeToString(), options), weights


def fill_prediction(
    prediction: service_pb2.Prediction,
    view: ModelView,
    prepared: PreparedInstance,
    answer: Answer,
    options: CallOptions,
) -> None:
    """Fill in one prediction, all but the time that this takes and the label sets that groups and ranges make."""
    for name, builder in view.results.items():
        builder.fill(prediction.results.add(name=name), answer, prepared.instance, options.max_classes)
    for name in options.label_names:
        prediction.label_sets.append(prepared.labels.get(name) or labels_to_wire(answer.labels[name]))
    outputs = prediction.outputs
    for name in options.outputs:
        if name in answer.outputs:
            outputs[name].CopyFrom(to_tensor(answer.outputs[name]))
    prediction.truncated = prepared.row.truncated
    if answer.seed is not None:
        prediction.seed = answer.seed
    fill_provenance(prediction.provenance, view, prepared, answer)


def fill_provenance(
    provenance: service_pb2.Provenance, view: ModelView, prepared: PreparedInstance, answer: Answer
) -> None:
    """Say what made an answer."""
    model, timing = view.model, answer.timing
    provenance.model.name = model.name
    provenance.model.version = model.version
    provenance.bundle_digest = model.digest
    provenance.provider = model.provider
    provenance.graph = answer.graph
    provenance.batch_rows = answer.batch_rows
    provenance.queue_nanoseconds = timing.queue
    provenance.compute_nanoseconds = timing.compute
    provenance.preprocess_nanoseconds = prepared.nanoseconds


def add_maps(messages: MutableSequence[attention_pb2.AttentionMap], applied: Applied) -> int:
    """Append finished maps to a message; give the bytes of their weights."""
    messages.extend(map(map_to_wire, applied.maps))
    return sum(each.weights.nbytes for each in applied.maps)


def _add_sequence(
    message: service_pb2.SequenceAttention, view: ModelView, answer: Answer, other: SequenceMaps, plan: AttentionPlan
) -> int:
    """Fill in the maps of one further sequence, and the label sets that are its own; give the bytes of its weights."""
    applied = apply(_part_of(plan, other), other.maps, {**answer.labels, **other.labels})
    made = [each for each in applied.labels.values() if each.parent == view.steps_label]
    message.label_sets.extend(map(labels_to_wire, (*other.labels.values(), *made)))
    return add_maps(message.maps, applied)


def _part_of(plan: AttentionPlan, other: SequenceMaps) -> AttentionPlan:
    """Keep of a plan what a sequence's own tokens decide."""
    own = {name for name, _ in other.maps}
    selected = tuple(each for each in plan.selected if each.description.name in own)
    stacks = {
        stack: members
        for stack, members in plan.stacks.items()
        if all(each.description.name in own for each in members)
    }
    return replace(plan, selected=selected, stacks=stacks)


class Stream:
    """The messages of one Generate call, in order. weights: bytes of those sent so far."""

    def __init__(self, view: ModelView, prepared: PreparedInstance, seed: int | None, options: CallOptions) -> None:
        self._view = view
        self._prepared = prepared
        self._seed = seed
        self._options = options
        self.weights = 0

    def start(self) -> service_pb2.GenerateResponse:
        """Begin with the label sets that are known before the first token."""
        response = service_pb2.GenerateResponse()
        start = response.start
        start.truncated = self._prepared.row.truncated
        if self._seed is not None:
            start.seed = self._seed
        start.label_sets.extend(self._prepared.labels.values())
        if self._options.plan is not None:
            start.label_sets.extend(map(labels_to_wire, planned_labels(self._options.plan.key_groups)))
        return response

    def token(self, step: Step) -> service_pb2.GenerateResponse:
        """Tell one token, with its row of every map."""
        response = service_pb2.GenerateResponse()
        token = response.token
        token.index, token.id, token.text = step.index, step.token_id, step.text
        token.log_probability, token.delta = step.log_probability, step.delta
        plan = self._options.plan
        if plan is not None:
            own = {name for name, _ in step.maps}
            selected = tuple(each for each in plan.selected if each.description.name in own)
            labels: Mapping[str, Labels] = self._prepared.row.labels
            self.weights += add_maps(token.maps, apply(replace(plan, selected=selected), step.maps, labels, step.index))
        return response

    def end(self, answer: Answer) -> service_pb2.GenerateResponse:
        """Tell the whole sequence, and the maps that no token brought: all of beam search, else the encoder's."""
        response = service_pb2.GenerateResponse()
        started, end, view = time.perf_counter_ns(), response.end, self._view
        end.sequences.extend(map(sequence_to_wire, answer.sequences))
        end.label_set.CopyFrom(labels_to_wire(answer.labels[view.steps_label]))
        plan = self._options.plan
        if plan is not None:
            beams = self._options.generation.strategy is Strategy.BEAM
            left = tuple(each for each in plan.selected if beams or each.description.query_labels != view.steps_label)
            self.weights += add_maps(end.maps, apply(replace(plan, selected=left), answer.maps, answer.labels))
        fill_provenance(end.provenance, view, self._prepared, answer)
        end.provenance.encode_nanoseconds = time.perf_counter_ns() - started
        return response


def _checked(data: bytes, options: CallOptions) -> bytes:
    if len(data) > options.limit:  # only where an axis has no limit in the model's description
        raise TooLargeError("instances", f"need an answer of {len(data)} bytes; at most {options.limit} are allowed")
    return data
