"""From the engine's answers to messages."""

import time
from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import replace

from bundle.errors import TooLargeError
from bundle.wire import labels_to_wire, to_tensor
from limelight.v1 import attention_pb2, service_pb2
from service.attention.apply import Finished, apply
from service.engine.types import Answer, Step, Strategy
from service.rpc.maps import map_to_wire
from service.rpc.prepare import Prepared, Wish
from service.rpc.results import sequence_to_wire
from service.rpc.view import ModelView


def predict_response(view: ModelView, prepared: Sequence[Prepared], answers: Sequence[Answer], wish: Wish) -> bytes:
    """Build and serialize the answer of Predict."""
    response = service_pb2.PredictResponse()
    for one, answer in zip(prepared, answers, strict=True):
        started = time.perf_counter_ns()
        prediction = response.predictions.add()
        fill_prediction(prediction, view, one, answer, wish)
        prediction.provenance.encode_nanoseconds = time.perf_counter_ns() - started
    return _checked(response.SerializeToString(), wish)


def attend_response(
    view: ModelView, prepared: Sequence[Prepared], answers: Sequence[Answer], wish: Wish
) -> tuple[bytes, int]:
    """Build and serialize the answer of Attend; also give the bytes of its weights."""
    response = service_pb2.AttendResponse()
    weights = 0
    for one, answer in zip(prepared, answers, strict=True):
        started = time.perf_counter_ns()
        result = response.results.add()
        fill_prediction(result.prediction, view, one, answer, wish)
        weights += add_maps(result.maps, finished_maps(answer, wish))
        result.label_sets.extend(label_sets(view, one.labels, answer, wish))
        result.prediction.provenance.encode_nanoseconds = time.perf_counter_ns() - started
    return _checked(response.SerializeToString(), wish), weights


def fill_prediction(
    prediction: service_pb2.Prediction, view: ModelView, prepared: Prepared, answer: Answer, wish: Wish
) -> None:
    """Fill in one prediction, all but the time that this takes."""
    view.fill(prediction, answer, prepared.instance)
    outputs = prediction.outputs
    for name in wish.outputs:
        if name in answer.outputs:
            outputs[name].CopyFrom(to_tensor(answer.outputs[name]))
    prediction.truncated = prepared.row.truncated
    fill_provenance(prediction.provenance, view, prepared, answer)


def fill_provenance(provenance: service_pb2.Provenance, view: ModelView, prepared: Prepared, answer: Answer) -> None:
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


def finished_maps(answer: Answer, wish: Wish) -> list[Finished]:
    """Carry out the plan of a call on an answer."""
    assert wish.plan is not None
    return apply(wish.plan, answer.maps, {name: each.size for name, each in answer.labels.items()})


def label_sets(
    view: ModelView, labels: Mapping[str, attention_pb2.LabelSet], answer: Answer, wish: Wish
) -> list[attention_pb2.LabelSet]:
    """Give the label sets that the maps refer to; `labels` are those made already."""
    assert wish.plan is not None
    return [labels.get(name) or labels_to_wire(answer.labels[name]) for name in view.label_names(wish.plan)]


def add_maps(messages: MutableSequence[attention_pb2.AttentionMap], finished: Sequence[Finished]) -> int:
    """Append finished maps to a message; give the bytes of their weights."""
    for each in finished:
        messages.append(map_to_wire(each))
    return sum(each.weights.nbytes for each in finished)


class Stream:
    """The messages of one Generate call, in order. weights: bytes of those sent so far."""

    def __init__(self, view: ModelView, prepared: Prepared, wish: Wish) -> None:
        self._view = view
        self._prepared = prepared
        self._wish = wish
        self.weights = 0

    def start(self) -> service_pb2.GenerateResponse:
        """Begin with the label sets that are known before the first token."""
        response = service_pb2.GenerateResponse()
        response.start.truncated = self._prepared.row.truncated
        response.start.label_sets.extend(self._prepared.labels.values())
        return response

    def token(self, step: Step) -> service_pb2.GenerateResponse:
        """Tell one token, with its row of every map."""
        response = service_pb2.GenerateResponse()
        token = response.token
        token.index, token.id, token.text = step.index, step.token_id, step.text
        token.log_probability, token.delta = step.log_probability, step.delta
        plan = self._wish.plan
        if plan is not None:
            chosen = tuple(each for each in plan.chosen if each.description.name in step.maps)
            sizes = {name: each.size for name, each in self._prepared.row.labels.items()}
            self.weights += add_maps(token.maps, apply(replace(plan, chosen=chosen), step.maps, sizes, step.index))
        return response

    def end(self, answer: Answer) -> service_pb2.GenerateResponse:
        """Tell the whole sequence, and the maps that no token brought: all of beam search, else the encoder's."""
        response = service_pb2.GenerateResponse()
        started, end, view = time.perf_counter_ns(), response.end, self._view
        end.sequences.extend(map(sequence_to_wire, answer.sequences))
        end.label_set.CopyFrom(labels_to_wire(answer.labels[view.steps_label]))
        plan = self._wish.plan
        if plan is not None:
            beams = self._wish.generation.strategy is Strategy.BEAM
            left = tuple(each for each in plan.chosen if beams or each.description.query_labels != view.steps_label)
            finished = finished_maps(answer, replace(self._wish, plan=replace(plan, chosen=left)))
            self.weights += add_maps(end.maps, finished)
        fill_provenance(end.provenance, view, self._prepared, answer)
        end.provenance.encode_nanoseconds = time.perf_counter_ns() - started
        return response


def _checked(data: bytes, wish: Wish) -> bytes:
    if len(data) > wish.limit:  # only where an axis has no limit in the model's description
        raise TooLargeError("instances", f"the answer takes {len(data)} bytes; at most {wish.limit} are allowed")
    return data
