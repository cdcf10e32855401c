"""From the engine's answers to the bytes that are sent, one row at a time, so that a row can be framed where it was
computed.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock

from bundle.errors import TooLargeError
from bundle.rows import Labels
from bundle.wire import labels_to_wire
from limelight.v1.service_pb2 import (
    Attended,
    AttendResponse,
    GeneratedToken,
    GenerateResponse,
    GenerationEnd,
    GenerationStart,
    Prediction,
    PredictResponse,
    Provenance,
    SequenceAttention,
)
from service.attention.apply import Applied, apply
from service.attention.labels import planned_labels
from service.attention.plan import AttentionPlan
from service.engine.types import Answer, SequenceMaps, Step, Strategy, Timing
from service.rpc.framing import Frame
from service.rpc.maps import frame_map
from service.rpc.prepare import CallOptions, PreparedInstance
from service.rpc.results import sequence_to_wire
from service.rpc.room import Room, Written
from service.rpc.view import ModelView

_ENTRY_KEY, _ENTRY_VALUE = 1, 2  # of an entry of a map field


class Gathering:
    """The answer of one call of Predict or Attend, gathered row by row from whatever threads the rows are computed on.

    room: for the answer, where it is large. weights: bytes of the weights framed so far. nanoseconds: that framing has
    taken so far.
    """

    def __init__(self, view: ModelView, prepared: Sequence[PreparedInstance], options: CallOptions, room: Room) -> None:
        self._view = view
        self._prepared = prepared
        self._options = options
        self._room = room
        self._lock = Lock()
        self._rows: list[bytes | None] = [None] * len(prepared)
        self._data: Written = b""
        self.weights = 0
        self.nanoseconds = 0

    def finish(self, index: int, answer: Answer) -> Timing:
        """Frame a row; whoever frames the last one puts them all together.

        Returns: what the engine spent on the row.
        Raises: TooLargeError; InputError where the answer lacks an index that was asked for.
        """
        started, options, weights = time.perf_counter_ns(), self._options, 0
        frame = Frame()
        if options.plan is None:
            prediction = frame_prediction(self._view, self._prepared[index], answer, options)
            frame.put(PredictResponse.PREDICTIONS_FIELD_NUMBER, prediction)
        else:
            attended, weights = frame_attended(self._view, self._prepared[index], answer, options, options.plan)
            frame.put(AttendResponse.RESULTS_FIELD_NUMBER, attended)
        self._check(frame.size)
        if len(self._rows) == 1:
            self._data = frame.written(self._room)
        else:
            self._gather(index, frame.joined())
        with self._lock:
            self.weights += weights
            self.nanoseconds += time.perf_counter_ns() - started
        return answer.timing

    def take(self) -> Written:
        """Give the serialised answer, once every row has been framed, and keep nothing of it."""
        data, self._data = self._data, b""
        return data

    def _gather(self, index: int, data: bytes) -> None:
        """Keep a row's bytes, and put them together with the others' once all are there."""
        with self._lock:
            self._rows[index] = data
            rows = [each for each in self._rows if each is not None]
            if len(rows) < len(self._rows):
                return
            self._rows = []
        whole = Frame()
        for each in rows:
            whole.extend(Frame(each))
        self._check(whole.size)
        self._data = whole.written(self._room)

    def _check(self, size: int) -> None:
        limit = self._options.limit
        if size > limit:  # only where an axis has no limit in the model's description
            raise TooLargeError("instances", f"need an answer of {size} bytes; at most {limit} are allowed")


def frame_prediction(
    view: ModelView,
    prepared: PreparedInstance,
    answer: Answer,
    options: CallOptions,
    made: Iterable[Labels] = (),
    started: int | None = None,
) -> Frame:
    """Frame a `Prediction`.

    made: label sets that groups and ranges made. started: when building the answer began, by `perf_counter_ns`.
    """
    started = time.perf_counter_ns() if started is None else started
    small = Prediction(truncated=prepared.row.truncated, seed=answer.seed)
    for name, builder in view.results.items():
        builder.fill(small.results.add(name=name), answer, prepared.instance, options.max_classes)
    large = Frame()
    for name in options.label_names:
        labels = prepared.labels.get(name) or labels_to_wire(answer.labels[name]).SerializeToString()
        large.put(Prediction.LABEL_SETS_FIELD_NUMBER, labels)
    for each in made:
        large.put(Prediction.LABEL_SETS_FIELD_NUMBER, labels_to_wire(each).SerializeToString())
    for name in options.outputs:
        if name in answer.outputs:
            entry = Frame()
            entry.put(_ENTRY_KEY, name.encode())
            entry.put_tensor(_ENTRY_VALUE, answer.outputs[name])
            large.put(Prediction.OUTPUTS_FIELD_NUMBER, entry)
    fill_provenance(small.provenance, view, prepared, answer, started)
    frame = Frame(small.SerializeToString())
    frame.extend(large)
    return frame


def frame_attended(
    view: ModelView, prepared: PreparedInstance, answer: Answer, options: CallOptions, plan: AttentionPlan
) -> tuple[Frame, int]:
    """Frame an `Attended`; also give the bytes of its weights."""
    started = time.perf_counter_ns()
    applied = apply(plan, answer.maps, answer.labels)
    large = Frame()
    weights = put_maps(large, Attended.MAPS_FIELD_NUMBER, applied)
    for number, other in enumerate(answer.other_sequences, 1):
        message, of_sequence = _frame_sequence(number, view, answer, other, plan)
        large.put(Attended.OTHER_SEQUENCES_FIELD_NUMBER, message)
        weights += of_sequence
    frame = Frame()
    prediction = frame_prediction(view, prepared, answer, options, applied.labels.values(), started)
    frame.put(Attended.PREDICTION_FIELD_NUMBER, prediction)
    frame.extend(large)
    return frame, weights


def fill_provenance(
    provenance: Provenance, view: ModelView, prepared: PreparedInstance, answer: Answer, started: int
) -> None:
    """Say what made an answer whose building began at `started`."""
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
    provenance.encode_nanoseconds = time.perf_counter_ns() - started


def put_maps(frame: Frame, number: int, applied: Applied) -> int:
    """Put finished maps into a message; give the bytes of their weights."""
    for each in applied.maps:
        frame.put(number, frame_map(each))
    return sum(each.weights.nbytes for each in applied.maps)


def _frame_sequence(
    number: int, view: ModelView, answer: Answer, other: SequenceMaps, plan: AttentionPlan
) -> tuple[Frame, int]:
    """Frame the maps of one further sequence, and the label sets that are its own; give the bytes of its weights."""
    applied = apply(_part_of(plan, other), other.maps, {**answer.labels, **other.labels})
    made = [each for each in applied.labels.values() if each.parent in view.growing]
    frame = Frame(SequenceAttention(sequence=number).SerializeToString())
    for each in (*other.labels.values(), *made):
        frame.put(SequenceAttention.LABEL_SETS_FIELD_NUMBER, labels_to_wire(each).SerializeToString())
    return frame, put_maps(frame, SequenceAttention.MAPS_FIELD_NUMBER, applied)


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
    """The messages of one Generate call, serialised, in order. weights: bytes of those sent so far."""

    def __init__(self, view: ModelView, prepared: PreparedInstance, seed: int | None, options: CallOptions) -> None:
        self._view = view
        self._prepared = prepared
        self._seed = seed
        self._options = options
        self.weights = 0

    def start(self) -> bytes:
        """Begin with the label sets that are known before the first token."""
        start = Frame(GenerationStart(truncated=self._prepared.row.truncated, seed=self._seed).SerializeToString())
        for labels in self._prepared.labels.values():
            start.put(GenerationStart.LABEL_SETS_FIELD_NUMBER, labels)
        for name, put_in in self._view.model.put_in(self._prepared.row).items():
            if name in self._options.label_names:
                start.put(GenerationStart.LABEL_SETS_FIELD_NUMBER, labels_to_wire(put_in).SerializeToString())
        if self._options.plan is not None:
            for made in planned_labels(self._options.plan.key_groups):
                start.put(GenerationStart.LABEL_SETS_FIELD_NUMBER, labels_to_wire(made).SerializeToString())
        return _event(GenerateResponse.START_FIELD_NUMBER, start)

    def token(self, step: Step) -> bytes:
        """Tell one token, with its row of every map."""
        small = GeneratedToken(
            index=step.index, id=step.token_id, text=step.text, log_probability=step.log_probability, delta=step.delta
        )
        token, plan = Frame(small.SerializeToString()), self._options.plan
        if plan is not None:
            own = {name for name, _ in step.maps}
            selected = tuple(each for each in plan.selected if each.description.name in own)
            applied = apply(replace(plan, selected=selected), step.maps, self._prepared.row.labels, step.index)
            self.weights += put_maps(token, GeneratedToken.MAPS_FIELD_NUMBER, applied)
        return _event(GenerateResponse.TOKEN_FIELD_NUMBER, token)

    def end(self, answer: Answer) -> bytes:
        """Tell the whole sequence, and the maps that no token brought: all of beam search, else the encoder's."""
        started, view, plan, large = time.perf_counter_ns(), self._view, self._options.plan, Frame()
        if plan is not None:
            beams = self._options.generation.strategy is Strategy.BEAM
            left = tuple(each for each in plan.selected if beams or each.description.query_labels != view.steps_label)
            applied = apply(replace(plan, selected=left), answer.maps, answer.labels)
            self.weights += put_maps(large, GenerationEnd.MAPS_FIELD_NUMBER, applied)
        small = GenerationEnd(
            sequences=map(sequence_to_wire, answer.sequences), label_set=labels_to_wire(answer.labels[view.steps_label])
        )
        fill_provenance(small.provenance, view, self._prepared, answer, started)
        end = Frame(small.SerializeToString())
        end.extend(large)
        return _event(GenerateResponse.END_FIELD_NUMBER, end)


def _event(number: int, frame: Frame) -> bytes:
    whole = Frame()
    whole.put(number, frame)
    return whole.joined()
