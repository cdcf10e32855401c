"""limelight.v1 over HTTP: each method reads a message from JSON, has `AttentionService` answer it, and writes that.

Numbers take two to three times as many bytes in JSON, and memory while they are written: so an answer has at most
`LARGEST` bytes of arrays, unless its caller takes them as bytes.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from google.protobuf.message import Message

from limelight.v1 import service_pb2 as pb
from limelight_bundle.errors import InputError
from limelight_service.codecs.json.reading import parsed, read_message
from limelight_service.codecs.json.writing import message_json, message_with_bytes, written
from limelight_service.codecs.v1.service import SERVICE, AttentionService
from limelight_service.frontend.call import Call
from limelight_service.frontend.core import Core
from limelight_service.frontend.http.failures import Failure
from limelight_service.frontend.http.methods import (
    BYTES,
    JSON_LENGTH_HEADER,
    EventsHttp,
    HttpMethod,
    HttpRequest,
    HttpResponse,
    UnaryHttp,
)

LARGEST = 8 * 2**20
_LARGE = 16 * 1024  # bytes from which JSON is read, and an answer written, on a thread
_VERSION = re.compile(r"[1-9][0-9]{0,9}")
_MODEL = "/v1/models/{name:name}", "/v1/models/{name:name}/versions/{version:name}"

_STREAMED = (pb.AttendStreamRequest, pb.GenerateRequest)  # their events are JSON, whatever the caller accepts

M = TypeVar("M", bound=Message)


class JsonService:
    """The methods of limelight.v1 over HTTP. For one event loop."""

    def __init__(self, core: Core, max_response_bytes: int) -> None:
        self._core = core
        self._service = AttentionService(core, max_response_bytes)

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        found: list[HttpMethod] = [UnaryHttp("GET", "/v1/models", SERVICE, "ListModels", error_body, handle=self.list)]
        for path in _MODEL:
            found += [
                UnaryHttp("POST", f"{path}:predict", SERVICE, "Predict", error_body, handle=self.predict),
                UnaryHttp("POST", f"{path}:attend", SERVICE, "Attend", error_body, handle=self.attend),
                _events(f"{path}:attendStream", "AttendStream", self.attend_stream),
                _events(f"{path}:generate", "Generate", self.generate),
                UnaryHttp("GET", path, SERVICE, "GetModel", error_body, handle=self.describe),
            ]
        return found

    async def list(self, request: HttpRequest, call: Call) -> HttpResponse:
        """List the models."""
        data = await self._service.list_models(pb.ListModelsRequest(), call)
        return await self._response(pb.ListModelsResponse, data, request, call)

    async def describe(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Describe a model."""
        message = _addressed(pb.GetModelRequest(), request.names)
        data = await self._service.get_model(message, call)
        return await self._response(pb.GetModelResponse, data, request, call)

    async def predict(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Answer without attention."""
        message = await self._message(pb.PredictRequest, request, call)
        data = await self._service.predict(message, call)
        return await self._response(pb.PredictResponse, data, request, call)

    async def attend(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Answer with the attention behind it."""
        message = await self._message(pb.AttendRequest, request, call)
        data = await self._service.attend(message, call)
        return await self._response(pb.AttendResponse, data, request, call)

    async def attend_stream(self, request: HttpRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer with the attention behind it, an event for each chunk."""
        message = await self._message(pb.AttendStreamRequest, request, call)
        async with aclosing(self._service.attend_stream(message, call)) as answers:
            async for data in answers:
                yield await self._on_thread(partial(_event, pb.AttendStreamResponse, data), len(data), call)

    async def generate(self, request: HttpRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer token by token, an event for each."""
        message = await self._message(pb.GenerateRequest, request, call)
        async with aclosing(self._service.generate(message, call)) as answers:
            async for data in answers:
                yield await self._on_thread(partial(_event, pb.GenerateResponse, data), len(data), call)

    async def _message(self, kind: type[M], request: HttpRequest, call: Call) -> M:
        """Read the request, and bound the bytes of its answer. Raises: InputError naming the field."""
        if not request.wants_bytes or kind in _STREAMED:
            call.limit = LARGEST
        body = request.body
        message: M = await self._on_thread(lambda: read_message(kind, parsed(body)), len(body), call)
        return _addressed(message, request.names)

    async def _response(self, kind: type[Message], data: bytes, request: HttpRequest, call: Call) -> HttpResponse:
        """Write the answer of `AttentionService` anew."""
        if request.wants_bytes:
            text, arrays = await self._on_thread(lambda: message_with_bytes(kind.FromString(data)), len(data), call)
            self._core.hold_answer(len(text), call)
            return HttpResponse([text, *arrays], BYTES, headers={JSON_LENGTH_HEADER: str(len(text))})
        text = await self._on_thread(lambda: message_json(kind.FromString(data)), len(data), call)
        self._core.hold_answer(len(text), call)
        return HttpResponse([text])

    async def _on_thread(self, function: Any, size: int, call: Call) -> Any:
        """Run a function of so many bytes: on a thread where they are many."""
        return function() if size < _LARGE else await self._core.on_thread(function, call)


def _events(path: str, name: str, handle: Callable[[HttpRequest, Call], AsyncGenerator[bytes, None]]) -> EventsHttp:
    return EventsHttp("POST", path, SERVICE, name, error_body, failed_event=error_event, handle=handle)


def error_body(failure: Failure) -> Any:
    """Give the JSON of an error."""
    return {"error": failure.body()}


def error_event(failure: Failure) -> bytes:
    """Give the last event of a stream that fails."""
    return _framed("error", written(error_body(failure)))


def _event(kind: type[Message], data: bytes) -> bytes:
    message = kind.FromString(data)
    name = message.WhichOneof("event")
    assert name is not None
    return _framed(name, message_json(message))


def _framed(name: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def _addressed(message: M, names: Mapping[str, str]) -> M:
    """Set the model of a request by the path. Raises: InputError where the request names one itself."""
    if message.HasField("model"):
        raise InputError("model", "is stated by the path; leave it out of the request")
    model: Any = message.model  # type: ignore[attr-defined]
    model.name = names["name"]
    version = names.get("version")
    if version is not None:
        if not _VERSION.fullmatch(version) or int(version) >= 2**31:
            raise InputError("version", f"is {version[:20]!r} in the path; it is a whole number from 1")
        model.version = int(version)
    return message
