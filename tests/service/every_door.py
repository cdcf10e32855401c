"""One request by every door, gRPC and HTTP, of limelight.v1 and of the Open Inference Protocol; answers and errors."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import grpc
import numpy as np
from google.protobuf import json_format

from limelight.v1 import service_pb2, values_pb2
from limelight_bundle.wire import DTYPES, to_array, to_tensor
from limelight_service.open_inference import open_inference_pb2 as pb
from tests.kit.serving import Refusal, Running, refusal
from tests.service.http.calls import Answer, call, events
from tests.service.open_inference.calls import unary

DOORS = ("grpc", "http")
# HTTP's status of each code, as the documentation has it; where nothing would help but a smaller request, 413.
STATUS = {
    **dict.fromkeys(("INVALID_ARGUMENT", "OUT_OF_RANGE", "FAILED_PRECONDITION"), 400),
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
METHODS = {
    service_pb2.PredictRequest: ("Predict", service_pb2.PredictResponse),
    service_pb2.AttendRequest: ("Attend", service_pb2.AttendResponse),
    service_pb2.AttendStreamRequest: ("AttendStream", service_pb2.AttendStreamResponse),
    service_pb2.GenerateRequest: ("Generate", service_pb2.GenerateResponse),
    service_pb2.TokenizeRequest: ("Tokenize", service_pb2.TokenizeResponse),
    service_pb2.ExplainRequest: ("Explain", service_pb2.ExplainResponse),
}


def ask(
    running: Running, door: str, request: Any, metadata: Sequence[tuple[str, str]] = (), seconds: float = 60
) -> Any:
    """Make a call of limelight.v1: the response, the list of a stream's, or a `Refusal`."""
    name, kind = METHODS[type(request)]
    if door == "grpc":
        try:
            found = getattr(running.stub, name)(request, metadata=metadata, timeout=seconds)
            return list(found) if isinstance(found, grpc.Call) else found
        except grpc.RpcError as error:
            return refusal(error)
    path, body = path_and_body(request)
    answer = call(running, path, body, headers={"x-request-timeout": str(seconds), **dict(metadata)})
    if answer.status != 200:
        return refused(answer)
    if answer.headers["content-type"] == "text/event-stream":
        return [as_message(kind, event) for _, event in events(answer)]
    return as_message(kind, answer.json)


def path_and_body(request: Any) -> tuple[str, dict[str, Any]]:
    """Say over HTTP what a message says."""
    body = json_format.MessageToDict(request)
    body.pop("model", None)
    name = METHODS[type(request)][0]
    version = f"/versions/{request.model.version}" if request.model.version else ""
    return f"/v1/models/{quote(request.model.name, safe='')}{version}:{name[0].lower()}{name[1:]}", body


def as_message(kind: type[Any], value: Any) -> Any:
    """Read an answer as any client of proto3 JSON would, once tensors are bytes again."""

    def tensors(item: Any) -> Any:
        if isinstance(item, list):
            return [tensors(each) for each in item]
        if not isinstance(item, dict):
            return item
        if isinstance(item.get("dataType"), str) and "shape" in item:
            dtype = DTYPES[values_pb2.DataType.Value(item["dataType"])]
            return json_format.MessageToDict(to_tensor(np.array(item["data"], dtype).reshape(item["shape"])))
        return {name: tensors(each) for name, each in item.items()}

    return json_format.ParseDict(tensors(value), kind())


def refused(answer: Answer) -> Refusal:
    """Read an error as a client of HTTP does, by either protocol; its status is the one of its code."""
    error = answer.json
    if isinstance(error["error"], dict):
        error = error["error"]
    details = {each["@type"].rpartition(".")[2]: each for each in error["details"]}
    fields = details.get("BadRequest", {}).get("fieldViolations", [{}])
    info, retry = details["ErrorInfo"], details.get("RetryInfo")
    assert error["code"] == answer.status == (413 if info["reason"] == "TOO_LARGE" else STATUS[error["status"]]), error
    assert info["metadata"]["request_id"] == answer.headers["x-request-id"] and info["domain"] == "limelight"
    delay = None if retry is None else float(retry["retryDelay"].removesuffix("s"))
    assert (delay is not None) == ("retry-after" in answer.headers)
    message = error.get("message", error.get("error"))
    return Refusal(
        error["status"], message, fields[0].get("field", ""), info["reason"], answer.headers["x-request-id"], delay
    )


def infer_by(running: Running, door: str, request: pb.ModelInferRequest) -> Any:
    """Make a call of the Open Inference Protocol: its response, that of REST as JSON, or a `Refusal`."""
    if door == "grpc":
        try:
            return unary(running.channel, "ModelInfer", request, pb.ModelInferResponse)
        except grpc.RpcError as error:
            return refusal(error)
    version = f"/versions/{request.model_version}" if request.model_version else ""
    answer = call(running, f"/v2/models/{request.model_name}{version}/infer", rest_body(request))
    return answer.json if answer.status == 200 else refused(answer)


def rest_body(request: pb.ModelInferRequest) -> dict[str, Any]:
    """Say in REST what a message says; inputs are of texts or of numbers, raw."""

    def parameters(entries: Mapping[str, pb.InferParameter]) -> dict[str, Any]:
        return {name: getattr(each, each.WhichOneof("parameter_choice")) for name, each in entries.items()}

    body: dict[str, Any] = {"parameters": parameters(request.parameters), "inputs": [], "outputs": []}
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        data: list[Any] = []
        if tensor.datatype == "BYTES":
            while raw:
                size = int.from_bytes(raw[:4], "little")
                data.append(raw[4 : 4 + size].decode())
                raw = raw[4 + size :]
        else:
            data = np.frombuffer(raw, {"INT64": "<i8", "INT32": "<i4"}.get(tensor.datatype, "u1")).tolist()
        given = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape), "data": data}
        body["inputs"].append(given | ({"parameters": parameters(tensor.parameters)} if tensor.parameters else {}))
    for each in request.outputs:
        body["outputs"].append({"name": each.name, "parameters": parameters(each.parameters)})
    return json.loads(json.dumps({name: each for name, each in body.items() if each}))


def same(found: Any, expected: Any) -> None:
    """Both are the same message but for times and provenance, numbers within the tolerance of another batch."""
    np.testing.assert_equal(*(_without_numbers(each) for each in (found, expected)))
    for one, other in zip(_numbers(found), _numbers(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def _numbers(message: Any) -> list[Any]:
    """Every tensor and floating number of a message, but of its provenance."""
    if message.DESCRIPTOR.name == "Tensor":
        return [to_array(message, "").astype(np.float64)]
    found: list[Any] = []
    for field, value in message.ListFields():
        if field.name == "provenance":
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            found += [number for name in sorted(value) for number in _numbers(value[name])]
        elif field.message_type is not None:
            found += [number for each in (value if field.is_repeated else [value]) for number in _numbers(each)]
        elif field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
            found.append(np.atleast_1d(np.array(value)))
    return found


def _without_numbers(message: Any) -> Any:
    """The rest of a message."""

    def rest(item: Any) -> Any:
        if isinstance(item, dict):
            return {
                name: rest(each)
                for name, each in item.items()
                if name != "provenance"
                and not name.endswith("Nanoseconds")
                and not (name == "data" and "dataType" in item)
            }
        return [rest(each) for each in item] if isinstance(item, list) else 0.0 if isinstance(item, float) else item

    return rest(json_format.MessageToDict(message))
