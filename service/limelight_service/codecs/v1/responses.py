"""Answers as serialized messages."""

import time
from collections.abc import Iterable

from limelight.v1 import service_pb2 as pb
from limelight_bundle.rows import Labels
from limelight_bundle.wire import labels_to_wire
from limelight_service.attention.labels import planned_labels
from limelight_service.attention.plan import AttentionPlan
from limelight_service.codecs.answers import StreamSums, check_size, described_maps, streamed_head
from limelight_service.codecs.explanations import explanation_message
from limelight_service.codecs.framing import Frame
from limelight_service.codecs.v1.maps import frame_map, map_header, put_arrays
from limelight_service.codecs.v1.results import fill_result, sequence_message, top_tokens
from limelight_service.frontend.calls import (
    AnswerEncoder,
    CheckedCall,
    Hidden,
    Inference,
    Prediction,
    PreparedInstance,
    Tokenized,
)
from limelight_service.frontend.explaining.explanation import Explanations
from limelight_service.ipc.boundary import (
    ChunkResult,
    GenerationBegun,
    MapResult,
    SequenceResult,
    StreamBegun,
    TokenResult,
)

_ENTRY_KEY, _ENTRY_VALUE = 1, 2  # of an entry of a map field


def label_set(labels: Labels) -> bytes:
    """Serialize a label set."""
    return labels_to_wire(labels).SerializeToString()


def _predicted(checked: CheckedCall, prediction: Prediction) -> Frame:
    """Frame the field of one instance in a `PredictResponse`."""
    frame = Frame()
    frame.put(pb.PredictResponse.PREDICTIONS_FIELD_NUMBER, _prediction(prediction, time.perf_counter_ns()))
    return frame


def _attended(checked: CheckedCall, prediction: Prediction) -> Frame:
    """Frame the field of one instance in an `AttendResponse`."""
    started, plan = time.perf_counter_ns(), checked.plan
    assert plan is not None
    large = Frame()
    _put_maps(large, pb.Attended.MAPS_FIELD_NUMBER, prediction.result.maps, plan)
    for number, other in enumerate(prediction.result.other_sequences, 1):
        large.put(pb.Attended.OTHER_SEQUENCES_FIELD_NUMBER, _sequence(number, other, plan))
    attended = Frame()
    attended.put(pb.Attended.PREDICTION_FIELD_NUMBER, _prediction(prediction, started))
    attended.extend(large)
    frame = Frame()
    frame.put(pb.AttendResponse.RESULTS_FIELD_NUMBER, attended)
    return frame


def _whole(inference: Inference) -> bytes:
    """Serialize a response of the fields of its instances. Raises: TooLargeError."""
    whole = Frame()
    for each in inference.parts:
        whole.extend(each)
    check_size(whole.size, inference.checked)
    return whole.joined()


PREDICT = AnswerEncoder(_whole, _predicted)
ATTEND = AnswerEncoder(_whole, _attended)


def tokenized(results: Iterable[Tokenized]) -> bytes:
    """Serialize a `TokenizeResponse`."""
    whole = Frame()
    for each in results:
        frame = Frame(pb.Tokenized(truncated=each.truncated).SerializeToString())
        for labels in each.labels:
            frame.put(pb.Tokenized.LABEL_SETS_FIELD_NUMBER, labels)
        whole.put(pb.TokenizeResponse.RESULTS_FIELD_NUMBER, frame)
    return whole.joined()


def explained(found: Explanations) -> bytes:
    """Serialize an `ExplainResponse`. Raises: TooLargeError."""
    whole = Frame()
    for each in found.explanations:
        frame = Frame(explanation_message(each).SerializeToString())
        frame.put(pb.Explanation.PREDICTION_FIELD_NUMBER, _prediction(each.prediction, time.perf_counter_ns()))
        frame.put(pb.Explanation.UNITS_FIELD_NUMBER, label_set(each.units))
        whole.put(pb.ExplainResponse.EXPLANATIONS_FIELD_NUMBER, frame)
    check_size(whole.size, found.checked)
    return whole.joined()


class MapStreamMessages:
    """The messages of AttendStream for one instance. place: of the instance."""

    def __init__(self, checked: CheckedCall, place: int) -> None:
        assert checked.plan is not None
        self._checked = checked
        self._plan = checked.plan
        self._place = place
        self.sums = StreamSums()

    def begin(self, prediction: Prediction, begun: StreamBegun) -> bytes:
        """Serialize the first message. Raises: TooLargeError; InputError for keys that the instance lacks."""
        start = Frame()
        made = planned_labels(self._plan.key_groups)
        framed = _prediction(prediction, time.perf_counter_ns(), made)
        start.put(pb.AttendStreamStart.PREDICTION_FIELD_NUMBER, framed)
        for selected, streamed in zip(self._plan.selected, begun.maps, strict=True):
            head, shape = streamed_head(self._plan, selected, streamed)
            data = pb.StreamedMap(map=map_header(head), shape=shape).SerializeToString()
            start.put(pb.AttendStreamStart.MAPS_FIELD_NUMBER, data)
        check_size(start.size, self._checked, what="need a message")
        return self._message(pb.AttendStreamResponse.START_FIELD_NUMBER, start)

    def chunk(self, chunk: ChunkResult) -> bytes:
        """Serialize a chunk. Raises: TooLargeError."""
        started = time.perf_counter_ns()
        small = pb.AttentionChunk(
            map=chunk.place,
            first_head=chunk.first_head,
            heads=chunk.map.weights.shape[0],
            first_query=chunk.first_query,
            queries=chunk.queries,
            normalised=chunk.map.normalised,
        )
        frame = Frame(small.SerializeToString())
        put_arrays(frame, pb.AttentionChunk, chunk.map)
        data = self._message(pb.AttendStreamResponse.CHUNK_FIELD_NUMBER, frame)
        check_size(len(data), self._checked, "attention", "needs a message")
        self.sums.add(chunk, started)
        return data

    def end(self) -> bytes:
        """Serialize the last message."""
        sums = pb.AttendStreamEnd(**vars(self.sums))
        return self._message(pb.AttendStreamResponse.END_FIELD_NUMBER, Frame(sums.SerializeToString()))

    def _message(self, number: int, content: Frame) -> bytes:
        whole = Frame(pb.AttendStreamResponse(instance=self._place).SerializeToString())
        whole.put(number, content)
        return whole.joined()


class GenerationMessages:
    """The messages of one Generate call."""

    def __init__(self, checked: CheckedCall, prepared: PreparedInstance) -> None:
        self._checked = checked
        self._prepared = prepared

    def begin(self, begun: GenerationBegun) -> bytes:
        """Serialize the first message, with the label sets that are known before the first token."""
        fields, wanted = pb.GenerationStart, self._checked.wanted
        start = Frame(fields(truncated=self._prepared.row.truncated, seed=begun.seed).SerializeToString())
        for labels in self._prepared.labels.values():
            start.put(fields.LABEL_SETS_FIELD_NUMBER, labels)
        for put_in in begun.labels:
            if put_in.name in wanted.labels:
                start.put(fields.LABEL_SETS_FIELD_NUMBER, label_set(put_in))
        if wanted.plan is not None:
            for made in planned_labels(wanted.plan.key_groups):
                start.put(fields.LABEL_SETS_FIELD_NUMBER, label_set(made))
        return _event(pb.GenerateResponse.START_FIELD_NUMBER, start)

    def token(self, token: TokenResult) -> bytes:
        """Serialize one token, with its row of every map."""
        small = pb.GeneratedToken(
            index=token.index,
            id=token.token_id,
            text=token.text,
            log_probability=token.log_probability,
            delta=token.delta,
            forced=token.forced,
            top=top_tokens(token.top),
        )
        frame = Frame(small.SerializeToString())
        _put_maps(frame, pb.GeneratedToken.MAPS_FIELD_NUMBER, token.maps, self._checked.plan)
        return _event(pb.GenerateResponse.TOKEN_FIELD_NUMBER, frame)

    def end(self, prediction: Prediction) -> bytes:
        """Serialize the last message: the whole sequence, and the maps that no token brought."""
        started, result = time.perf_counter_ns(), prediction.result
        large = Frame()
        _put_maps(large, pb.GenerationEnd.MAPS_FIELD_NUMBER, result.maps, self._checked.plan)
        steps = next(each for each in result.labels if each.name == self._checked.schema.steps_label)
        small = pb.GenerationEnd(sequences=map(sequence_message, result.sequences), label_set=labels_to_wire(steps))
        _fill_provenance(small.provenance, prediction, started)
        end = Frame(small.SerializeToString())
        end.extend(large)
        return _event(pb.GenerateResponse.END_FIELD_NUMBER, end)


def _prediction(prediction: Prediction, started: int, made: Iterable[Labels] = ()) -> Frame:
    """Frame a `Prediction`. made: further label sets. started: when encoding began, by `perf_counter_ns`."""
    result = prediction.result
    small = pb.Prediction(truncated=prediction.truncated, seed=result.seed)
    for name, typed in prediction.results.items():
        fill_result(small.results.add(name=name), typed)
    large = Frame()
    for labels in prediction.labels.values():
        data = labels if isinstance(labels, bytes) else label_set(labels)
        large.put(pb.Prediction.LABEL_SETS_FIELD_NUMBER, data)
    for each in (*made, *prediction.derived_labels):
        large.put(pb.Prediction.LABEL_SETS_FIELD_NUMBER, label_set(each))
    for name, array in prediction.outputs.items():
        entry = Frame()
        entry.put(_ENTRY_KEY, name.encode())
        entry.put_tensor(_ENTRY_VALUE, array)
        large.put(pb.Prediction.OUTPUTS_FIELD_NUMBER, entry)
    for hidden in prediction.hidden:
        large.put(pb.Prediction.HIDDEN_FIELD_NUMBER, _hidden(hidden))
    _fill_provenance(small.provenance, prediction, started)
    frame = Frame(small.SerializeToString())
    frame.extend(large)
    return frame


def _hidden(hidden: Hidden) -> Frame:
    """Frame a `HiddenState`."""
    it = hidden.description
    small = pb.HiddenState(
        name=it.name, stack=it.stack, layer=it.layer, label_set=it.label_set, positions=hidden.positions
    )
    if hidden.reading is not None:
        small.tokens_per_entry = hidden.reading.token_ids.shape[1]
        small.token_ids.extend(hidden.reading.token_ids.ravel().tolist())
        small.tokens.extend(hidden.reading.texts)
        small.log_probabilities.extend(hidden.reading.log_probabilities.ravel().tolist())
    frame = Frame(small.SerializeToString())
    if hidden.vectors is not None:
        frame.put_tensor(pb.HiddenState.VECTORS_FIELD_NUMBER, hidden.vectors)
    return frame


def _sequence(number: int, other: SequenceResult, plan: AttentionPlan) -> Frame:
    """Frame the maps of one further sequence, and the label sets that are its own."""
    frame = Frame(pb.SequenceAttention(sequence=number).SerializeToString())
    for each in other.labels:
        frame.put(pb.SequenceAttention.LABEL_SETS_FIELD_NUMBER, label_set(each))
    _put_maps(frame, pb.SequenceAttention.MAPS_FIELD_NUMBER, other.maps, plan)
    return frame


def _put_maps(frame: Frame, number: int, maps: Iterable[MapResult], plan: AttentionPlan | None) -> None:
    for each, description in described_maps(maps, plan):
        assert plan is not None
        frame.put(number, frame_map(each, description, plan.options.quantity))


def _fill_provenance(message: pb.Provenance, prediction: Prediction, started: int) -> None:
    """Say what made an answer whose encoding began at `started`."""
    made = prediction.provenance
    message.model.name = made.model
    message.model.version = made.version
    message.bundle_digest = made.digest
    message.provider = made.provider
    message.graph = made.graph
    message.batch_rows = made.batch_rows
    message.queue_nanoseconds = made.queue
    message.compute_nanoseconds = made.compute
    message.preprocess_nanoseconds = made.preprocess
    message.encode_nanoseconds = prediction.result.reduce_nanoseconds + time.perf_counter_ns() - started
    message.cached = prediction.result.cached


def _event(number: int, frame: Frame) -> bytes:
    whole = Frame()
    whole.put(number, frame)
    return whole.joined()
