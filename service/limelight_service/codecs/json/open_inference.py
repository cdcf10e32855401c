"""The Open Inference Protocol over HTTP: its REST form, with the binary tensor data extension.

Requests become those of the gRPC service, with raw contents, and its answers become JSON: inputs, outputs and
parameters are the same in both.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from limelight_bundle.errors import InputError
from limelight_bundle.values import Array
from limelight_service.codecs.json.numbers import array_of, flattened, json_of, shown
from limelight_service.codecs.json.reading import parsed
from limelight_service.codecs.json.v1 import LARGEST
from limelight_service.codecs.json.writing import written
from limelight_service.codecs.oip.contents import MOST_AXES, checked_shape
from limelight_service.codecs.oip.datatypes import BYTES as BYTES_TYPE
from limelight_service.codecs.oip.datatypes import DATA_TYPES
from limelight_service.codecs.oip.service import SERVICE, InferenceService
from limelight_service.frontend.call import Call
from limelight_service.frontend.core import Core
from limelight_service.frontend.http.failures import Failure
from limelight_service.frontend.http.methods import (
    BYTES,
    INFERENCE_LENGTH_HEADER,
    JSON,
    HttpMethod,
    HttpRequest,
    HttpResponse,
    UnaryHttp,
)
from limelight_service.frontend.validation import MOST_NAMES
from limelight_service.open_inference import open_inference_pb2 as pb

_LARGE = 16 * 1024  # bytes from which a request is read, and an answer written, on a thread
_MODEL = "/v2/models/{name:name}", "/v2/models/{name:name}/versions/{version:name}"
_REPOSITORY = "/v2/repository/models/{name:name}"
_LENGTH = 4  # bytes that state the length of an element of BYTES
_LONGEST = 64  # characters of a name that is repeated to its caller
_RAW = re.compile(r"raw_input_contents\[(\d+)\]")
_EXTENSION = "binary_tensor_data"
_OF_CONTENTS = ("binary_data", "binary_data_output", "binary_data_size")


@dataclass(frozen=True)
class _Binary:
    """Which outputs a caller takes as bytes. named: those for which it says so or not; others as `otherwise`."""

    named: Mapping[str, bool]
    otherwise: bool

    def __contains__(self, name: str) -> bool:
        """True for an output as bytes; what belongs to a map, as its scales, goes with the map."""
        of = next((each for each in self.named if name == each or name.startswith(f"{each}.")), None)
        return self.otherwise if of is None else self.named.get(name, self.named[of])

    @property
    def is_all(self) -> bool:
        """True where nothing is written as numbers."""
        return self.otherwise if not self.named else all(self.named.values())


class RestService:
    """The methods of the protocol over HTTP. For one event loop."""

    def __init__(self, core: Core, most_rows: int, is_ready: Callable[[], bool]) -> None:
        self._core = core
        self._service = InferenceService(core, most_rows, is_ready)

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        found = [
            _get("/v2", "ServerMetadata", self.server),
            _get("/v2/health/live", "ServerLive", self.live),
            _get("/v2/health/ready", "ServerReady", self.ready),
            _get("/v2/models/stats", "ModelStatistics", self.statistics),
            _post("/v2/repository/index", "RepositoryIndex", self.index),
            _post(f"{_REPOSITORY}/load", "RepositoryModelLoad", self.load),
            _post(f"{_REPOSITORY}/unload", "RepositoryModelUnload", self.unload),
        ]
        for path in _MODEL:
            found += [
                _get(path, "ModelMetadata", self.model),
                _get(f"{path}/ready", "ModelReady", self.model_ready),
                _get(f"{path}/config", "ModelConfig", self.config),
                _get(f"{path}/stats", "ModelStatistics", self.statistics),
                _post(f"{path}/infer", "ModelInfer", self.infer),
            ]
        return found

    async def server(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Name the server."""
        found = await self._service.server_metadata(pb.ServerMetadataRequest(), call)
        extensions = [*found.extensions, _EXTENSION]
        return _json({"name": found.name, "version": found.version, "extensions": extensions})

    async def live(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Tell that the server runs."""
        found = await self._service.server_live(pb.ServerLiveRequest(), call)
        return _json({"live": found.live})

    async def ready(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Tell by the status whether the server can answer."""
        found = await self._service.server_ready(pb.ServerReadyRequest(), call)
        return _json({"ready": found.ready}, 200 if found.ready else 503)

    async def model_ready(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Tell by the status whether a model can answer."""
        name, version = _addressed(request)
        found = await self._service.model_ready(pb.ModelReadyRequest(name=name, version=version), call)
        return _json({"name": name, "ready": found.ready}, 200 if found.ready else 503)

    async def model(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Describe a model."""
        name, version = _addressed(request)
        found = await self._service.model_metadata(pb.ModelMetadataRequest(name=name, version=version), call)
        return _json(
            {
                "name": found.name,
                "versions": list(found.versions),
                "platform": found.platform,
                "inputs": _described(found.inputs),
                "outputs": _described(found.outputs),
                "properties": dict(found.properties),
            }
        )

    async def config(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Describe a model in the form of a configuration."""
        name, version = _addressed(request)
        found = await self._service.model_config(pb.ModelConfigRequest(name=name, version=version), call)
        return _json(fields_of(found.config))

    async def statistics(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Count the calls of one model, or of all."""
        name, version = request.names.get("name", ""), request.names.get("version", "")
        found = await self._service.model_statistics(pb.ModelStatisticsRequest(name=name, version=version), call)
        return _json(fields_of(found))

    async def index(self, request: HttpRequest, call: Call) -> HttpResponse:
        """List every version that the caller may know of."""
        content = _object(await self._content(request, call), "", ("ready",))
        asked = pb.RepositoryIndexRequest(ready=_flag(content, "ready", "", form="{}"))
        found = await self._service.repository_index(asked, call)
        return _json([fields_of(each) for each in found.models])

    async def load(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Load the highest version of a model that the folder has."""
        message = pb.RepositoryModelLoadRequest(model_name=_addressed(request)[0])
        for name in _repository_parameters(await self._content(request, call)):
            message.parameters[name].string_param = ""  # none is taken, whatever its value
        await self._service.repository_model_load(message, call)
        return _json({})

    async def unload(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Unload all versions of a model."""
        message = pb.RepositoryModelUnloadRequest(model_name=_addressed(request)[0])
        for name in _repository_parameters(await self._content(request, call)):
            message.parameters[name].bool_param = False  # the one that is taken changes nothing
        await self._service.repository_model_unload(message, call)
        return _json({})

    async def infer(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Answer every row."""
        message, binary = await self._on_thread(partial(_infer_request, request), len(request.body), call)
        message.model_name, message.model_version = _addressed(request)
        if not binary.is_all:
            call.limit = LARGEST
        try:
            data = await self._service.model_infer(message, call)
        except InputError as error:
            raise type(error)(_RAW.sub(r"inputs[\1]", error.field), error.message) from error
        parts = await self._on_thread(partial(_infer_response, data, binary), len(data), call)
        self._core.hold_answer(sum(len(each) for each in parts), call)
        if binary.is_all or len(parts) > 1:
            return HttpResponse(parts, BYTES, headers={INFERENCE_LENGTH_HEADER: str(len(parts[0]))})
        return HttpResponse(parts)

    async def _content(self, request: HttpRequest, call: Call) -> Any:
        """Read a body that may be empty. Raises: InputError."""
        return await self._on_thread(lambda: parsed(request.body or b"{}"), len(request.body), call)

    async def _on_thread(self, function: Callable[[], Any], size: int, call: Call) -> Any:
        """Run a function of so many bytes: on a thread where they are many."""
        return function() if size < _LARGE else await self._core.on_thread(function, call)


def _get(path: str, name: str, handle: Any) -> UnaryHttp:
    return UnaryHttp("GET", path, SERVICE, name, Failure.plain_body, handle=handle)


def _post(path: str, name: str, handle: Any) -> UnaryHttp:
    # Triton's client states no media type.
    return UnaryHttp("POST", path, SERVICE, name, Failure.plain_body, (JSON, BYTES, ""), handle=handle)


def fields_of(message: Any) -> dict[str, Any]:
    """Give a message as JSON the way Triton writes it: every field by its own name, and 64-bit integers as numbers."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value, of = getattr(message, field.name), field.message_type
        if of is not None and of.GetOptions().map_entry:
            nested = of.fields_by_name["value"].message_type is not None
            found[field.name] = {str(key): fields_of(each) if nested else each for key, each in value.items()}
        elif field.is_repeated:
            found[field.name] = [_field_value(field, each) for each in value]
        elif of is None or message.HasField(field.name):
            found[field.name] = _field_value(field, value)
    return found


def _field_value(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return value if field.message_type is None else fields_of(value)


def _repository_parameters(content: Any) -> Mapping[str, Any]:
    return _named(_object(content, "", ("parameters",)).get("parameters", {}), "parameters")


def _json(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse([written(value)], status=status)


def _addressed(request: HttpRequest) -> tuple[str, str]:
    return request.names["name"], request.names.get("version", "")


def _described(tensors: Sequence[pb.ModelMetadataResponse.TensorMetadata]) -> list[dict[str, Any]]:
    return [{"name": each.name, "datatype": each.datatype, "shape": list(each.shape)} for each in tensors]


def _infer_request(request: HttpRequest) -> tuple[pb.ModelInferRequest, _Binary]:
    """Translate a request; for any thread.

    Raises: InputError and its kinds, naming the field.
    """
    text, binary = _parts(request)
    content = _object(parsed(text), "", ("id", "parameters", "inputs", "outputs"))
    message = pb.ModelInferRequest(id=_text(content.get("id", ""), "id"))
    options = _parameters(message.parameters, content.get("parameters", {}), "")
    place = 0
    for number, each in enumerate(_list(content.get("inputs", []), "inputs", MOST_NAMES)):
        field = f"inputs[{number}]"
        given = _object(each, field, ("name", "shape", "datatype", "parameters", "data"))
        tensor = message.inputs.add(
            name=_text(given.get("name", ""), f"{field}.name"),
            datatype=_text(given.get("datatype", ""), f"{field}.datatype"),
            shape=_sizes(given.get("shape", []), f"{field}.shape"),
        )
        size = _parameters(tensor.parameters, given.get("parameters", {}), field).get("binary_data_size")
        if size is None:
            if "data" not in given:
                raise InputError(f"{field}.data", "is missing, and so is the parameter binary_data_size")
            message.raw_input_contents.append(_contents(tensor, given["data"], field))
            continue
        path = f'{field}.parameters["binary_data_size"]'
        if "data" in given:
            raise InputError(path, "is stated beside data; send one of the two")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise InputError(path, f"is {shown(size)}; it takes a number of bytes")
        if place + size > len(binary):
            raise InputError(path, f"is {size}; {len(binary) - place} bytes are left behind the JSON")
        message.raw_input_contents.append(bytes(binary[place : place + size]))
        place += size
    if place != len(binary):
        raise InputError("", f"{len(binary) - place} bytes behind the JSON belong to no input")
    named: dict[str, bool] = {}
    otherwise = _flag(options, "binary_data_output", "")
    for number, each in enumerate(_list(content.get("outputs", []), "outputs", MOST_NAMES)):
        field = f"outputs[{number}]"
        given = _object(each, field, ("name", "parameters"))
        output = message.outputs.add(name=_text(given.get("name", ""), f"{field}.name"))
        own = _parameters(output.parameters, given.get("parameters", {}), field)
        named[output.name] = _flag(own, "binary_data", field) if "binary_data" in own else otherwise
    return message, _Binary(named, otherwise)


def _parts(request: HttpRequest) -> tuple[bytes, memoryview]:
    """Cut a request into its JSON and the bytes behind it. Raises: InputError."""
    stated = request.headers.get(INFERENCE_LENGTH_HEADER)
    if stated is None:
        return request.body, memoryview(b"")
    if not stated.isdecimal() or len(stated) > 10 or int(stated) > len(request.body):
        raise InputError(INFERENCE_LENGTH_HEADER, f"is {stated[:20]!r}; the request has {len(request.body)} bytes")
    length = int(stated)
    return request.body[:length], memoryview(request.body)[length:]


def _parameters(target: Any, value: Any, field: str) -> Mapping[str, Any]:
    """Read parameters into their messages; gives those that concern the form of contents. Raises: InputError."""
    path = f"{field}.parameters".removeprefix(".")
    for name, each in _named(value, path).items():
        if name in _OF_CONTENTS:
            continue
        parameter = target[name]
        match each:
            case bool():
                parameter.bool_param = each
            case int() if -(2**63) <= each < 2**63:
                parameter.int64_param = each
            case int() if 0 <= each < 2**64:
                parameter.uint64_param = each
            case float():
                parameter.double_param = each
            case str():
                parameter.string_param = each
            case _:
                raise InputError(
                    f'{path}["{name[:_LONGEST]}"]', f"is {shown(each)}; it takes a number, a text, true or false"
                )
    return {name: value[name] for name in _OF_CONTENTS if name in value}


def _flag(options: Mapping[str, Any], name: str, field: str, form: str = '.parameters["{}"]') -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        path = (field + form.format(name)).removeprefix(".")
        raise InputError(path, f"is {shown(value)}; it takes true or false")
    return value


def _contents(tensor: pb.ModelInferRequest.InferInputTensor, data: Any, path: str) -> bytes:
    """Give the raw contents of an input that is sent as JSON. Raises: InputError."""
    kind = DATA_TYPES.get(tensor.datatype)
    if kind is None:
        return b""  # told with those that there are, once inputs are read
    wanted = list(checked_shape(tensor.shape, f"{path}.shape"))
    field = f"{path}.data"
    if kind is BYTES_TYPE:
        flat, shape = flattened(data, field)
        contents = b"".join(_element(each, place, field) for place, each in enumerate(flat))
        size = len(flat)
    else:
        array = array_of(data, kind.dtype, field)
        contents, shape, size = array.tobytes(), array.shape, array.size
    if len(shape) > 1 and size and list(shape) != wanted:
        raise InputError(field, f"has the shape {list(shape)}, stated is {wanted}")
    needed = math.prod(wanted)
    if size != needed:
        raise InputError(field, f"has {size} elements; shape {wanted} needs {needed}")
    return contents


def _element(text: Any, place: int, field: str) -> bytes:
    if not isinstance(text, str):
        raise InputError(field, f"has {shown(text)} as element {place}; BYTES take texts")
    data = text.encode()
    return len(data).to_bytes(_LENGTH, "little") + data


def _infer_response(data: bytes, binary: _Binary) -> list[bytes | Array]:
    """Write an answer: its JSON, then the outputs that are taken as bytes. data: of a `ModelInferResponse`."""
    message = pb.ModelInferResponse.FromString(data)
    parts: list[bytes | Array] = []
    outputs = []
    for output, raw in zip(message.outputs, message.raw_output_contents, strict=True):
        parameters = _parameter_values(output.parameters)
        described = {"name": output.name, "datatype": output.datatype, "shape": list(output.shape)}
        if output.name in binary:
            parameters["binary_data_size"] = len(raw)
            parts.append(raw)
        else:
            described["data"] = _numbers(output.datatype, raw)
        outputs.append(described | ({"parameters": parameters} if parameters else {}))
    answer: dict[str, Any] = {"model_name": message.model_name, "model_version": message.model_version}
    if message.id:
        answer["id"] = message.id
    answer |= {"parameters": _parameter_values(message.parameters), "outputs": outputs}
    return [written(answer), *parts]


def _parameter_values(parameters: Mapping[str, pb.InferParameter]) -> dict[str, Any]:
    return {name: getattr(each, each.WhichOneof("parameter_choice") or "") for name, each in parameters.items()}


def _numbers(datatype: str, raw: bytes) -> Any:
    kind = DATA_TYPES[datatype]
    return list(_texts(raw)) if kind is BYTES_TYPE else json_of(np.frombuffer(raw, kind.dtype))


def _texts(raw: bytes) -> Iterator[str]:
    place = 0
    while place < len(raw):
        end = place + _LENGTH
        place = end + int.from_bytes(raw[place:end], "little")
        yield raw[end:place].decode()


def _object(value: Any, field: str, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(field, f"is {shown(value)}; it takes an object of {', '.join(names)}")
    for name in value:
        if name not in names:
            path = f"{field}.{name[:_LONGEST]}".removeprefix(".")
            raise InputError(path, f"is no field here; there are {', '.join(names)}")
    return value


def _named(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(field, f"is {shown(value)}; it takes an object")
    if len(value) > MOST_NAMES:
        raise InputError(field, f"has {len(value)} entries; at most {MOST_NAMES} are allowed")
    return value


def _list(value: Any, field: str, most: int) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(field, f"is {shown(value)}; it takes a list")
    if len(value) > most:
        raise InputError(field, f"has {len(value)} entries; at most {most} are allowed")
    return value


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InputError(field, f"is {shown(value)}; it takes a text")
    return value


def _sizes(value: Any, field: str) -> list[int]:
    for each in _list(value, field, MOST_AXES):
        if isinstance(each, bool) or not isinstance(each, int) or not -(2**63) <= each < 2**63:
            raise InputError(field, f"has {shown(each)}; it takes whole numbers")
    return list(value)
