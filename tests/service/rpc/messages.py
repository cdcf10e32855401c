"""Answers as protobuf itself builds them, field by field: what framing by hand is compared with."""

from collections.abc import Sequence

from bundle.wire import labels_to_wire, to_tensor
from limelight.v1 import attention_pb2, service_pb2
from service.attention.apply import Applied, apply
from service.attention.part import Finished
from service.engine.types import Answer
from service.rpc.maps import REDUCTIONS
from service.rpc.prepare import CallOptions, PreparedInstance
from service.rpc.view import ModelView


def map_message(finished: Finished) -> attention_pb2.AttentionMap:
    """A map."""
    part, described = finished.part, finished.part.description
    message = attention_pb2.AttentionMap(
        name=described.name, stack=described.stack, kind=described.kind, quantity=part.quantity
    )
    if described.HasField("layer"):
        message.layer = described.layer
    message.normalised, message.signed = part.normalised, part.signed
    message.query_labels, message.key_labels = part.query_labels, part.key_labels
    message.head_labels, message.feature_labels = described.head_labels, described.feature_labels
    message.head_reduction = REDUCTIONS[part.head_reduction]
    message.heads.extend(part.heads)
    message.queries.extend([] if part.queries is None else part.queries.tolist())
    message.keys.extend([] if part.keys is None else part.keys.tolist())
    message.weights.CopyFrom(to_tensor(finished.weights))
    for name, array in (
        ("scales", finished.scales),
        ("query_index", part.query_index),
        ("key_index", part.key_index),
        ("left_out", part.left_out),
    ):
        if array is not None:
            getattr(message, name).CopyFrom(to_tensor(array))
    return message


def prediction_message(
    view: ModelView, prepared: PreparedInstance, answer: Answer, options: CallOptions, applied: Applied | None = None
) -> service_pb2.Prediction:
    """A prediction, all but the time that it took."""
    message = service_pb2.Prediction(truncated=prepared.row.truncated, seed=answer.seed)
    for name, builder in view.results.items():
        builder.fill(message.results.add(name=name), answer, prepared.instance, options.max_classes)
    message.label_sets.extend(labels_to_wire(answer.labels[name]) for name in options.label_names)
    message.label_sets.extend(map(labels_to_wire, applied.labels.values() if applied else ()))
    for name in options.outputs:
        if name in answer.outputs:
            message.outputs[name].CopyFrom(to_tensor(answer.outputs[name]))
    model, timing = view.model, answer.timing
    message.provenance.model.name, message.provenance.model.version = model.name, model.version
    message.provenance.bundle_digest, message.provenance.provider = model.digest, model.provider
    message.provenance.graph, message.provenance.batch_rows = answer.graph, answer.batch_rows
    message.provenance.queue_nanoseconds = timing.queue
    message.provenance.compute_nanoseconds = timing.compute
    message.provenance.preprocess_nanoseconds = prepared.nanoseconds
    return message


def predict_message(
    view: ModelView, prepared: Sequence[PreparedInstance], answers: Sequence[Answer], options: CallOptions
) -> service_pb2.PredictResponse:
    """What Predict answers."""
    rows = zip(prepared, answers, strict=True)
    return service_pb2.PredictResponse(predictions=[prediction_message(view, *row, options) for row in rows])


def attend_message(
    view: ModelView, prepared: Sequence[PreparedInstance], answers: Sequence[Answer], options: CallOptions
) -> service_pb2.AttendResponse:
    """What Attend answers."""
    response, plan = service_pb2.AttendResponse(), options.plan
    assert plan is not None
    for one, answer in zip(prepared, answers, strict=True):
        applied = apply(plan, answer.maps, answer.labels)
        attended = response.results.add()
        attended.prediction.CopyFrom(prediction_message(view, one, answer, options, applied))
        attended.maps.extend(map(map_message, applied.maps))
        for number, other in enumerate(answer.other_sequences, 1):
            further = attended.other_sequences.add(sequence=number)
            further.label_sets.extend(map(labels_to_wire, other.labels.values()))
            labels = {**answer.labels, **other.labels}
            own = [each for each in plan.selected if (each.description.name, plan.options.quantity) in other.maps]
            for each in own:
                # Without groups and ranges, what becomes of one map does not depend on the others.
                alone = type(plan)((each,), plan.options, {}, {}, {})
                further.maps.extend(map(map_message, apply(alone, other.maps, labels).maps))
    return response
