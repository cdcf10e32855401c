"""The Open Inference Protocol over HTTP: its REST form, with the binary tensor data extension.

Descriptions and states are the messages of the gRPC service, written as Triton writes them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from limelight_service.codecs.json.inference import fields, flag, infer_body, named, read_infer_request
from limelight_service.codecs.json.reading import parsed
from limelight_service.codecs.json.writing import LARGEST, written
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
from limelight_service.open_inference import open_inference_pb2 as pb

_LARGE = 16 * 1024  # bytes from which a request is read, and an answer written, on a thread
_MODEL = "/v2/models/{name:name}", "/v2/models/{name:name}/versions/{version:name}"
_REPOSITORY = "/v2/repository/models/{name:name}"
_EXTENSION = "binary_tensor_data"


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
        content = fields(await self._content(request, call), (), ("ready",))
        asked = pb.RepositoryIndexRequest(ready=flag(content, "ready", ("ready",)))
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
        asked, binary = await self._on_thread(partial(read_infer_request, request), len(request.body), call)
        if not binary.is_all:
            call.limit = LARGEST
        encode = partial(infer_body, binary=binary)
        body = await self._service.infer(*_addressed(request), asked, encode, call)
        if binary.is_all or body.arrays:
            headers = {INFERENCE_LENGTH_HEADER: str(len(body.json))}
            return HttpResponse([body.json, *body.arrays], BYTES, headers=headers)
        return HttpResponse([body.json])

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
    return named(fields(content, (), ("parameters",)).get("parameters", {}), ("parameters",))


def _json(value: Any, status: int = 200) -> HttpResponse:
    return HttpResponse([written(value)], status=status)


def _addressed(request: HttpRequest) -> tuple[str, str]:
    return request.names["name"], request.names.get("version", "")


def _described(tensors: Sequence[pb.ModelMetadataResponse.TensorMetadata]) -> list[dict[str, Any]]:
    return [{"name": each.name, "datatype": each.datatype, "shape": list(each.shape)} for each in tensors]
