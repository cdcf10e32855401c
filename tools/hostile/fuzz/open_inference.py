"""Valid requests of the Open Inference Protocol, to be changed."""

from collections.abc import Iterator

import numpy as np
from google.protobuf.message import Message

from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.wire import to_array
from limelight_service.open_inference import open_inference_pb2 as pb
from tests.service.open_inference.calls import TYPES, infer_request, strings

INFERENCE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name
_PATH = f"/{INFERENCE}/"


def of_model(description: model_pb2.ModelDescription) -> Iterator[tuple[str, Message]]:
    """All that a caller may ask of one model, each once or twice."""
    name = description.name
    yield _PATH + "ModelReady", pb.ModelReadyRequest(name=name)
    yield _PATH + "ModelMetadata", pb.ModelMetadataRequest(name=name, version="1")
    yield _PATH + "ModelConfig", pb.ModelConfigRequest(name=name)
    yield _PATH + "ModelStatistics", pb.ModelStatisticsRequest(name=name)
    outputs = [each.name for each in description.outputs]
    maps = [each.name for each in description.maps][:2]
    labels = [f"{each.name}.labels" for each in description.label_sets][:2]
    selected = {"limelight_heads": "0,-1", "limelight_queries": 0}
    options = {"limelight_top_k": 2, "limelight_encoding": "float16", "limelight_attention": '{"rollout": false}'}
    for example in description.examples:
        inputs = {each: _array(value) for each, value in example.inputs.items()}
        if any(each is None for each in inputs.values()):
            continue
        arrays = {each: array for each, array in inputs.items() if array is not None}
        for typed in (False, True):
            if typed and any(not TYPES[each.dtype.name][1] for each in arrays.values()):
                continue
            plain = infer_request(name, arrays, typed=typed, id="7", parameters={"limelight_seed": 7})
            attended = infer_request(
                name, arrays, *outputs, *((each, selected) for each in maps), *labels, typed=typed, parameters=options
            )
            for request in (plain, attended):
                yield _PATH + "ModelInfer", request
                yield _PATH + "ModelStreamInfer", request
        if description.task == model_pb2.TASK_GENERATION:
            generation = '{"strategy": "STRATEGY_BEAM", "beams": 2, "maxNewTokens": 5}'
            yield (
                _PATH + "ModelInfer",
                infer_request(name, arrays, parameters={"limelight_generation": generation, "timeout": 10**7}),
            )


def of_server() -> Iterator[tuple[str, Message]]:
    """All that a caller may ask of the server."""
    yield _PATH + "ServerLive", pb.ServerLiveRequest()
    yield _PATH + "ServerReady", pb.ServerReadyRequest()
    yield _PATH + "ServerMetadata", pb.ServerMetadataRequest()
    yield _PATH + "RepositoryIndex", pb.RepositoryIndexRequest(ready=True)
    value = pb.ModelRepositoryParameter(bool_param=True)
    yield _PATH + "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="tiny", parameters={"config": value})
    yield _PATH + "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="tiny")


def _array(value: values_pb2.Value) -> np.ndarray | None:
    """Give a value as a tensor of one row; None for one that has no such form."""
    match value.WhichOneof("kind"):
        case "text":
            return strings([value.text.encode()])
        case "document":
            return strings([value.document.text.encode()])
        case "pair":
            return strings([value.pair.first.encode(), value.pair.second.encode()]).reshape(1, 2)
        case "image":
            return strings([value.image])
        case "tensor":
            return to_array(value.tensor, "tensor")[None]
    return None
