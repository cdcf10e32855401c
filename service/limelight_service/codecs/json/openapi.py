"""The OpenAPI document of the HTTP port, made of the protocol's descriptors and of the methods that are served."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from limelight.base.version import version as installed
from limelight.v1 import service_pb2 as pb
from limelight.v1 import values_pb2
from limelight_service.codecs.v1.service import SERVICE
from limelight_service.frontend.http.exchange import LONGEST_TIMEOUT, TIMEOUT_HEADER
from limelight_service.frontend.http.methods import (
    BYTES,
    EVENTS,
    INFERENCE_LENGTH_HEADER,
    JSON,
    JSON_LENGTH_HEADER,
    EventsHttp,
    HttpMethod,
)
from limelight_service.frontend.status import REQUEST_ID_KEY

_PART = re.compile(r"\{(\w+):\w+\}")
_SCHEMA = "#/components/schemas/"
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_TIMEOUT}
_INFINITE = ["NaN", "Infinity", "-Infinity"]
_PARTS = {
    "name": "Name of the model.",
    "version": "Version of the model, a whole number from 1.",
}
_SUMMARIES = {
    "ListModels": "Lists every model in the repository, including models that failed to load.",
    "GetModel": "Describes one model.",
    "Predict": "Answers each instance.",
    "Attend": "As predict, with attention weights.",
    "Explain": "Tells what of its input an answer depends on.",
    "AttendStream": "As attend, for whole maps of long inputs: each map arrives in chunks.",
    "Generate": "Generates a sequence, one token an event.",
    "Tokenize": "Cuts texts into the tokens that the model reads.",
    "ServerMetadata": "Names the server.",
    "ServerLive": "Tells that the server runs.",
    "ServerReady": "Tells by the status whether the server can answer.",
    "ModelMetadata": "Describes a model's inputs and outputs.",
    "ModelReady": "Tells by the status whether a model can answer.",
    "ModelConfig": "Describes a model in the form of a configuration.",
    "ModelStatistics": "Counts the calls of one model, or of all.",
    "RepositoryIndex": "Lists every version that the caller may know of.",
    "RepositoryModelLoad": "Loads the highest version of a model that the repository has.",
    "RepositoryModelUnload": "Unloads all versions of a model.",
    "ModelInfer": "Answers every row, with JSON tensors or tensors behind the JSON.",
}
_SCALARS: Mapping[int, dict[str, Any]] = {
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.CPPTYPE_UINT32: {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    FieldDescriptor.CPPTYPE_INT64: {"type": ["string", "integer"], "format": "int64"},
    FieldDescriptor.CPPTYPE_UINT64: {"type": ["string", "integer"], "format": "uint64"},
    FieldDescriptor.CPPTYPE_FLOAT: {"anyOf": [{"type": "number", "format": "float"}, {"enum": _INFINITE}]},
    FieldDescriptor.CPPTYPE_DOUBLE: {"anyOf": [{"type": "number", "format": "double"}, {"enum": _INFINITE}]},
}


def document(methods: Sequence[HttpMethod], *, has_tokens: bool) -> dict[str, Any]:
    """Make the document, OpenAPI 3.1. has_tokens: calls need one."""
    paths: dict[str, Any] = {
        "/healthz": {"get": _page("Tells that the server runs.", "200")},
        "/readyz": {"get": _page("Tells by the status whether the server can answer.", "200", "503")},
        "/openapi.json": {"get": _page("Gives this document.", "200")},
        "/docs": {"get": _page("Draws this document.", "200", media_type="text/html")},
    }
    for each in methods:
        paths.setdefault(_PART.sub(r"{\1}", each.path), {})[each.verb.lower()] = _operation(each, has_tokens)
    components: dict[str, Any] = {"schemas": _schemas()}
    if has_tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Limelight",
            "version": installed(),
            "description": "Serves attention models, and the attention weights behind their answers.",
        },
        "paths": paths,
        "components": components,
    }


def _operation(method: HttpMethod, has_tokens: bool) -> dict[str, Any]:
    names = _PART.findall(method.path)
    found: dict[str, Any] = {
        "operationId": method.name + ("OfVersion" if "version" in names else "OfModel" if _is_of_one(method) else ""),
        "summary": method.summary or _SUMMARIES[method.name],
        "tags": [method.service],
        "parameters": [
            *({"name": each, "in": "path", "required": True, "description": _PARTS[each], "schema": {"type": "string"}}
              for each in names),
            _header(TIMEOUT_HEADER, "Seconds that the caller waits.", _SECONDS),
            _header(REQUEST_ID_KEY, "Names the request in the log and in the answer.", {"type": "string"}),
        ],
        "responses": {"200": _answer(method), "default": _failed(method)},
    }  # fmt: skip
    if method.verb == "POST":
        found["requestBody"] = {"required": "Repository" not in method.name, "content": _request(method)}
    if has_tokens:
        found["security"] = [{"token": []}]
    return found


def _is_of_one(method: HttpMethod) -> bool:
    """True for what of one model is told by a method that there is for all as well."""
    return method.name == "ModelStatistics" and bool(_PART.search(method.path))


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _page(summary: str, *statuses: str, media_type: str = JSON) -> dict[str, Any]:
    content = {media_type: {"schema": {"type": "object" if media_type == JSON else "string"}}}
    return {"summary": summary, "responses": {each: {"description": summary, "content": content} for each in statuses}}


def _request(method: HttpMethod) -> dict[str, Any]:
    if method.request is not None:
        return {JSON: {"schema": method.request}}
    if method.name.startswith("Repository"):
        return {JSON: {"schema": {"type": "object"}}}
    if method.service != SERVICE:
        return {JSON: {"schema": _ref("InferRequest")}, BYTES: {"schema": {}}}
    return {JSON: {"schema": _ref(f"{method.name}Request")}}


def _answer(method: HttpMethod) -> dict[str, Any]:
    found: dict[str, Any] = {"description": "The answer."}
    if method.summary:  # of other services, whose answers their own documents describe
        return found | {"content": {JSON: {"schema": {}}, **({EVENTS: {}} if isinstance(method, EventsHttp) else {})}}
    if isinstance(method, EventsHttp):
        events = (
            f"Server-sent events: the data of each is a {method.name}Response, of the last of a failed stream an Error."
        )
        return {"description": events, "content": {EVENTS: {"schema": {"type": "string"}}}}
    if method.service != SERVICE and method.name != "ModelInfer":
        kind = "array" if method.name == "RepositoryIndex" else "object"
        return found | {"content": {JSON: {"schema": {"type": kind}}}}
    is_v1 = method.service == SERVICE
    name, header = (method.name, JSON_LENGTH_HEADER) if is_v1 else ("Infer", INFERENCE_LENGTH_HEADER)
    length = {"description": "Bytes of the JSON before the bytes of tensors.", "schema": {"type": "integer"}}
    content = {JSON: {"schema": _ref(f"{name}Response")}, BYTES: {"schema": {}}}
    return found | {"content": content, "headers": {header: length}}


def _failed(method: HttpMethod) -> dict[str, Any]:
    if method.summary:
        return {"description": "The call failed.", "content": {JSON: {"schema": {"type": "object"}}}}
    name = "Error" if method.service == SERVICE else "InferError"
    return {"description": "The call failed.", "content": {JSON: {"schema": _ref(name)}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _SCHEMA + name}


@cache
def _schemas() -> dict[str, Any]:
    """Give the schema of every message of the service's methods, and of what has no message."""
    (service,) = pb.DESCRIPTOR.services_by_name.values()
    found: dict[str, Any] = dict(_OTHERS)
    todo: list[Any] = [each for method in service.methods for each in (method.input_type, method.output_type)]
    while todo:
        message = todo.pop()
        name = _name(message)
        if name not in found:
            found[name] = _TENSOR if message is values_pb2.Tensor.DESCRIPTOR else _message(message)
            if name in _SHORT_FORMS:
                short = _SHORT_FORMS[name]
                found[name] = {"description": short["description"], "anyOf": [found[name], *short["anyOf"]]}
            todo += [each.message_type for each in message.fields if each.message_type is not None]
    entries = {name for name in found if name.endswith("Entry")}
    return {name: found[name] for name in sorted(found.keys() - entries)}


def _message(message: Descriptor) -> dict[str, Any]:
    properties = {each.json_name: _field(each) for each in message.fields}
    return {"type": "object", "properties": properties, "additionalProperties": False, **dict(_of_one(message))}


def _of_one(message: Descriptor) -> Iterator[tuple[str, Any]]:
    """Say which fields of a message exclude each other."""
    oneofs = [each for each in message.oneofs if len(each.fields) > 1]
    if oneofs:
        choices = "; ".join(", ".join(field.json_name for field in each.fields) for each in oneofs)
        yield "description", f"At most one of: {choices}."


def _field(field: FieldDescriptor) -> dict[str, Any]:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _value(message.fields_by_name["value"])}
    value = _value(field)
    return {"type": "array", "items": value} if field.is_repeated else value


def _value(field: FieldDescriptor) -> dict[str, Any]:
    if field.message_type is not None:
        return _ref(_name(field.message_type))
    if field.enum_type is not None:
        return {"type": "string", "enum": [each.name for each in field.enum_type.values]}
    if field.type == FieldDescriptor.TYPE_BYTES:
        return {"type": "string", "contentEncoding": "base64"}
    return _SCALARS.get(field.cpp_type, {"type": "string"})


def _name(message: Any) -> str:
    return str(message.full_name.removeprefix(f"{values_pb2.DESCRIPTOR.package}."))


_NUMBERS = {
    "description": "Numbers, true and false, or the words of numbers that are not finite; in nested lists or one list.",
    "anyOf": [{"type": ["number", "boolean"]}, {"enum": _INFINITE}, {"type": "array", "items": _ref("Numbers")}],
}
_TENSOR = {
    "type": "object",
    "description": (
        "An array. Requests may also have data in base64: little-endian and row-major. An answer with bytes behind its "
        "JSON has offset and bytes in place of data: where they begin after the JSON, and how many they are."
    ),
    "properties": {
        "dataType": {"type": "string", "enum": list(values_pb2.DataType.keys())},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "data": {"anyOf": [_ref("Numbers"), {"type": "string", "contentEncoding": "base64"}]},
        "offset": {"type": "integer"},
        "bytes": {"type": "integer"},
    },
    "additionalProperties": False,
}
# Beside the messages of their names, in requests.
_SHORT_FORMS: Mapping[str, dict[str, Any]] = {
    "Instance": {
        "description": (
            'Short forms: a value alone is that of the only input of the model, as "7 March 2021"; an object without '
            'inputs has values by their names, as {"question": "…", "passage": "…"}, beside seed and interventions.'
        ),
        "anyOf": [
            _ref("Value"),
            {
                "type": "object",
                "properties": {
                    "seed": _SCALARS[FieldDescriptor.CPPTYPE_UINT64],
                    "interventions": {"type": "array", "items": _ref("Intervention")},
                },
                "additionalProperties": _ref("Value"),
            },
        ],
    },
    "Value": {
        "description": (
            "Short forms, whose kind is that of the input: a text, also of a document; a list of sentences; a list of "
            'the two texts of a pair; base64 of an image or a WAV file, also as {"b64": "…"}; the numbers of a tensor; '
            "a graph."
        ),
        "anyOf": [
            {"type": ["string", "number", "boolean", "array"]},
            {"type": "object", "properties": {"b64": {"type": "string"}}, "additionalProperties": False},
            _ref("Graph"),
        ],
    },
}
_FAILURE = {
    "code": {"type": "integer", "description": "The HTTP status."},
    "status": {"type": "string", "description": "The name of the gRPC status."},
    "details": {"type": "array", "items": {"type": "object"}, "description": "Those of google.rpc.Status."},
}
_PARAMETERS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
_INFER_TENSOR = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "datatype": {"type": "string"},
        "parameters": _PARAMETERS,
        "data": {"type": "array", "items": {}},
    },
    "required": ["name", "shape", "datatype"],
}
_OTHERS = {
    "Numbers": _NUMBERS,
    "Error": {
        "type": "object",
        "properties": {"error": {"type": "object", "properties": {**_FAILURE, "message": {"type": "string"}}}},
    },
    "InferError": {"type": "object", "properties": {**_FAILURE, "error": {"type": "string"}}},
    "InferTensor": _INFER_TENSOR,
    "InferRequest": {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "parameters": _PARAMETERS,
            "inputs": {"type": "array", "items": _ref("InferTensor")},
            "outputs": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "parameters": _PARAMETERS}},
            },
        },
        "required": ["inputs"],
    },
    "InferResponse": {
        "type": "object",
        "properties": {
            "model_name": {"type": "string"},
            "model_version": {"type": "string"},
            "id": {"type": "string"},
            "parameters": _PARAMETERS,
            "outputs": {"type": "array", "items": _ref("InferTensor")},
        },
    },
}
