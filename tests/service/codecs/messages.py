"""Answers as protobuf itself builds them, field by field: what framing by hand is compared with."""

from limelight.v1 import attention_pb2, model_pb2, service_pb2
from limelight_bundle.wire import labels_to_wire, to_tensor
from limelight_service.attention.plan import AttentionPlan, rollout_description
from limelight_service.codecs.v1.maps import REDUCTIONS
from limelight_service.codecs.v1.results import fill_result
from limelight_service.frontend.calls import Inference, Prediction
from limelight_service.ipc.boundary import MapResult


def map_message(finished: MapResult, described: model_pb2.MapDescription, quantity: int) -> attention_pb2.AttentionMap:
    """Build a map."""
    message = attention_pb2.AttentionMap(name=described.name, stack=described.stack, kind=described.kind)
    message.quantity = quantity  # type: ignore[assignment]
    if described.HasField("layer"):
        message.layer = described.layer
    message.normalised, message.signed = finished.normalised, finished.signed
    message.query_labels, message.key_labels = finished.query_labels, finished.key_labels
    message.head_labels, message.feature_labels = described.head_labels, described.feature_labels
    message.head_reduction = REDUCTIONS[finished.head_reduction]
    message.heads.extend(finished.heads)
    message.queries.extend([] if finished.queries is None else finished.queries.tolist())
    message.keys.extend([] if finished.keys is None else finished.keys.tolist())
    message.weights.CopyFrom(to_tensor(finished.weights))
    for name in ("scales", "query_index", "key_index", "left_out"):
        array = getattr(finished, name)
        if array is not None:
            getattr(message, name).CopyFrom(to_tensor(array))
    return message


def prediction_message(prediction: Prediction) -> service_pb2.Prediction:
    """Build a prediction, all but the time that encoding takes."""
    message = service_pb2.Prediction(truncated=prediction.truncated, seed=prediction.result.seed)
    for name, result in prediction.results.items():
        fill_result(message.results.add(name=name), result)
    for labels in prediction.labels.values():
        if isinstance(labels, bytes):
            message.label_sets.add().ParseFromString(labels)
        else:
            message.label_sets.append(labels_to_wire(labels))
    message.label_sets.extend(map(labels_to_wire, prediction.derived_labels))
    for name, array in prediction.outputs.items():
        message.outputs[name].CopyFrom(to_tensor(array))
    made, provenance = prediction.provenance, message.provenance
    provenance.model.name, provenance.model.version = made.model, made.version
    provenance.bundle_digest, provenance.provider = made.digest, made.provider
    provenance.graph, provenance.batch_rows = made.graph, made.batch_rows
    provenance.queue_nanoseconds, provenance.compute_nanoseconds = made.queue, made.compute
    provenance.preprocess_nanoseconds = made.preprocess
    return message


def predict_message(inference: Inference) -> service_pb2.PredictResponse:
    """Build the answer to Predict."""
    return service_pb2.PredictResponse(predictions=map(prediction_message, inference.parts))


def attend_message(inference: Inference) -> service_pb2.AttendResponse:
    """Build the answer to Attend."""
    response, plan = service_pb2.AttendResponse(), inference.checked.plan
    assert plan is not None
    for each in inference.parts:
        attended = response.results.add()
        attended.prediction.CopyFrom(prediction_message(each))
        attended.maps.extend(_message(one, plan) for one in each.result.maps)
        for number, other in enumerate(each.result.other_sequences, 1):
            further = attended.other_sequences.add(sequence=number)
            further.label_sets.extend(map(labels_to_wire, other.labels))
            further.maps.extend(_message(one, plan) for one in other.maps)
    return response


def _message(finished: MapResult, plan: AttentionPlan) -> attention_pb2.AttentionMap:
    described = {each.description.name: each.description for each in plan.selected}
    described |= {each.name: each for each in map(rollout_description, plan.stacks.values())}
    return map_message(finished, described[finished.name], plan.options.quantity)
