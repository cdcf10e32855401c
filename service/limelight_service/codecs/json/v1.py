"""limelight.v1 over HTTP: JSON becomes calls of the core, and JSON is written from their answers.

Numbers take two to three times as many bytes in JSON, and memory while they are written: so an answer has at most
`LARGEST` bytes of arrays, unless its caller takes them as bytes.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from google.protobuf import json_format
from google.protobuf.message import Message

from limelight.v1 import attention_pb2
from limelight.v1 import service_pb2 as pb
from limelight_bundle.errors import InputError
from limelight_service.codecs.answers import LabelEncoder
from limelight_service.codecs.explanations import asked_of
from limelight_service.codecs.json.instances import JsonInstances
from limelight_service.codecs.json.reading import entries, field_of, members, parsed, read_message, scalar, scalars
from limelight_service.codecs.json.writing import (
    ATTEND,
    LARGEST,
    PREDICT,
    Body,
    Encoders,
    GenerationEvents,
    JsonWriter,
    MapStreamEvents,
    described_json,
    explained,
    label_set,
    tokenized,
    written,
)
from limelight_service.codecs.listing import Listing
from limelight_service.codecs.messages import (
    MOST_OPTIONS,
    NO_ATTENTION,
    SMALL_OPTIONS,
    AskedGeneration,
    Attention,
    attention_of,
    hidden_options,
)
from limelight_service.codecs.status import described_model, status_message
from limelight_service.codecs.streams import generation, map_stream
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest
from limelight_service.frontend.core import Core
from limelight_service.frontend.explaining.asked import Asked
from limelight_service.frontend.explaining.explain import explain
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
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.schema import ModelSchema
from limelight_service.repository.catalogue import VersionStatus

SERVICE = pb.DESCRIPTOR.services_by_name["AttentionService"].full_name
_LARGE = 16 * 1024  # bytes from which JSON is read, and an answer written, on a thread
_VERSION = re.compile(r"[1-9][0-9]{0,9}")
_MODEL = "/v1/models/{name:name}", "/v1/models/{name:name}/versions/{version:name}"


class JsonService:
    """The methods of limelight.v1 over HTTP. For one event loop."""

    def __init__(self, core: Core, max_response_bytes: int) -> None:
        self._core = core
        self._max_response_bytes = max_response_bytes
        self._encode_labels = LabelEncoder(label_set)
        self._listing = Listing(core, _list_entry, _joined)
        self._described: WeakKeyDictionary[ModelSchema, Mapping[str, Any]] = WeakKeyDictionary()
        self._options = lru_cache(MOST_OPTIONS)(_parsed_options)
        self._kept = lru_cache(MOST_OPTIONS)(CallOptions)  # so that models find them again

    def methods(self) -> Sequence[HttpMethod]:
        """List the methods with their paths."""
        found: list[HttpMethod] = [UnaryHttp("GET", "/v1/models", SERVICE, "ListModels", error_body, handle=self.list)]
        for path in _MODEL:
            found += [
                UnaryHttp("POST", f"{path}:predict", SERVICE, "Predict", error_body, handle=self.predict),
                UnaryHttp("POST", f"{path}:attend", SERVICE, "Attend", error_body, handle=self.attend),
                UnaryHttp("POST", f"{path}:explain", SERVICE, "Explain", error_body, handle=self.explain),
                _events(f"{path}:attendStream", "AttendStream", self.attend_stream),
                _events(f"{path}:generate", "Generate", self.generate),
                UnaryHttp("POST", f"{path}:tokenize", SERVICE, "Tokenize", error_body, handle=self.tokenize),
                UnaryHttp("GET", path, SERVICE, "GetModel", error_body, handle=self.describe),
            ]
        return found

    async def list(self, request: HttpRequest, call: Call) -> HttpResponse:
        """List the models."""
        data = self._listing.response(call)
        self._core.hold_answer(len(data), call)
        return _response(Body(data), request.wants_bytes)

    async def describe(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Describe a model; of one that failed, give the reason."""
        status = self._core.describe(*_address(request.names), call)
        writer = JsonWriter(as_bytes=request.wants_bytes)
        described: Mapping[str, Any] = {}
        if status.model is not None:
            schema = status.model.schema
            kept = None if request.wants_bytes else self._described.get(schema)
            if kept is None:
                kept = described_json(described_model(schema), writer)
                if not request.wants_bytes:
                    kept = self._described[schema] = {name: orjson.Fragment(written(kept[name])) for name in kept}
            described = kept
        found = {
            "status": described_json(status_message(status), writer),
            **described,
            "maxResponseBytes": str(self._max_response_bytes),
            **_for_openai(status),
        }
        return self._page(Body(written(found), writer.arrays), request, call)

    async def predict(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Answer without attention."""
        return await self._answered(pb.PredictRequest, PREDICT, request, call)

    async def attend(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Answer with the attention behind it."""
        return await self._answered(pb.AttendRequest, ATTEND, request, call)

    async def explain(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Tell what of its input each answer depends on."""
        as_bytes = request.wants_bytes
        if not as_bytes:
            call.limit = LARGEST
        asked, explanation = await self._core.on_thread(partial(self._explanation, request), call)
        found = await explain(self._core, asked, explanation, call)
        body = await self._core.made(found.checked, partial(explained, found, as_bytes=as_bytes), call)
        self._core.hold_answer(2 * len(body), call)
        return _response(body, as_bytes)

    async def attend_stream(self, request: HttpRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer with the attention behind it, an event for each chunk."""
        asked = await self._asked(pb.AttendStreamRequest, request, call, as_bytes=False)
        async with aclosing(map_stream(self._core, asked, call, MapStreamEvents)) as events:
            async for data in events:
                yield data

    async def generate(self, request: HttpRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer token by token, an event for each."""
        asked = await self._asked(pb.GenerateRequest, request, call, as_bytes=False)
        async with aclosing(generation(self._core, asked, call, GenerationEvents)) as events:
            async for data in events:
                yield data

    async def tokenize(self, request: HttpRequest, call: Call) -> HttpResponse:
        """Cut texts into tokens."""
        asked = await self._asked(pb.TokenizeRequest, request, call, as_bytes=False)
        return self._page(Body(tokenized(await self._core.tokenize(asked, call))), request, call)

    async def _answered(
        self, kind: type[Message], encoders: Encoders, request: HttpRequest, call: Call
    ) -> HttpResponse:
        as_bytes = request.wants_bytes
        asked = await self._asked(kind, request, call, as_bytes=as_bytes)
        return _response(await self._core.answer(asked, encoders[as_bytes], call), as_bytes)

    async def _asked(self, kind: type[Message], request: HttpRequest, call: Call, *, as_bytes: bool) -> CallRequest:
        """Read a request, a large one on a thread, and bound the bytes of its answer. Raises: InputError."""
        if not as_bytes:
            call.limit = LARGEST
        if len(request.body) < _LARGE:
            return self._read(kind, request)
        return await self._core.on_thread(partial(self._read, kind, request), call)

    def _explanation(self, request: HttpRequest) -> tuple[CallRequest, Asked]:
        """Read a request of an explanation. Raises: InputError."""
        given = members(pb.ExplainRequest.DESCRIPTOR, parsed(request.body), ())
        target = members(pb.ExplainTarget.DESCRIPTOR, given.get("target", {}), ("target",))
        similar = target.pop("similar_to", None)
        source = None if similar is None else JsonInstances([similar], len(request.body), ("target", "similar_to"))
        rest = {name: each for name, each in given.items() if name in ("units", "ways", "selections")}
        asked = asked_of(read_message(pb.ExplainRequest, {**rest, "target": target}), source)
        return self._call(pb.ExplainRequest, given, request), asked

    def _read(self, kind: type[Message], request: HttpRequest) -> CallRequest:
        return self._call(kind, members(kind.DESCRIPTOR, parsed(request.body), ()), request)

    def _call(self, kind: type[Message], given: dict[str, Any], request: HttpRequest) -> CallRequest:
        """Make a call of the fields of a request. Raises: InputError."""
        descriptor = kind.DESCRIPTOR
        if "model" in given:
            raise InputError("model", "is stated by the path; leave it out of the request")
        name, version = _address(request.names)
        if "instance" in descriptor.fields_by_name:
            instances = JsonInstances([given.get("instance", {})], len(request.body), ("instance",))
        else:
            instances = JsonInstances(entries(given.get("instances", []), ("instances",)), len(request.body))
        attention, generated = self._attention(descriptor, given), given.get("generation")
        if generated is not None:
            message = read_message(pb.GenerationOptions, generated, ("generation",))
            generated = AskedGeneration(message.SerializeToString())
        outputs: tuple[str, ...] | None = None
        for field in ("truncate", "max_classes"):
            if field in given:
                given[field] = scalar(field_of(descriptor, field), given[field], (field,))
        if "outputs" in given:
            outputs = tuple(scalars(field_of(descriptor, "outputs"), given["outputs"], ("outputs",))) or None
        hidden = None
        if "hidden" in given:
            hidden = hidden_options(read_message(pb.HiddenOptions, given["hidden"], ("hidden",)))
        options = self._kept(
            outputs if "outputs" in descriptor.fields_by_name else (),
            given.get("max_classes", 0),
            given.get("truncate", False),
            attention.options,
            generated,
            attention.limit,
            (),
            attention.is_large,
            hidden=hidden,
        )
        return CallRequest(name, version, instances, self._encode_labels, options)

    def _attention(self, descriptor: Any, given: Mapping[str, Any]) -> Attention:
        """Read attention options; small ones are kept for the next call. Raises: InputError."""
        if "attention" not in descriptor.fields_by_name:
            return NO_ATTENTION
        value = given.get("attention")
        if value is None:  # Generate alone does without
            return NO_ATTENTION if "instance" in descriptor.fields_by_name else self._options(b"{}")
        data = orjson.dumps(value)
        return self._options(data) if len(data) <= SMALL_OPTIONS else _read_options(value, is_large=True)

    def _page(self, body: Body, request: HttpRequest, call: Call) -> HttpResponse:
        self._core.hold_answer(len(body), call)
        return _response(body, request.wants_bytes)


def _events(path: str, name: str, handle: Callable[[HttpRequest, Call], AsyncGenerator[bytes, None]]) -> EventsHttp:
    return EventsHttp("POST", path, SERVICE, name, error_body, failed_event=error_event, handle=handle)


def error_body(failure: Failure) -> Any:
    """Give the JSON of an error."""
    return {"error": failure.body()}


def error_event(failure: Failure) -> bytes:
    """Give the last event of a stream that fails."""
    return b"event: error\ndata: %s\n\n" % written(error_body(failure))


def _response(body: Body, as_bytes: bool) -> HttpResponse:
    if not as_bytes:
        return HttpResponse([body.json])
    return HttpResponse([body.json, *body.arrays], BYTES, headers={JSON_LENGTH_HEADER: str(len(body.json))})


def _address(names: Mapping[str, str]) -> tuple[str, int]:
    """Read the model of a request, and its version, from its path. Raises: InputError."""
    version = names.get("version")
    if version is None:
        return names["name"], 0
    if not _VERSION.fullmatch(version) or int(version) >= 2**31:
        raise InputError("version", f"is {version[:20]!r} in the path; it is a whole number from 1")
    return names["name"], int(version)


def _list_entry(status: VersionStatus[Model]) -> tuple[bytes, bytes | None]:
    """Write an entry, and that of OpenAI's list: of a model that can answer."""
    is_there = status.is_default and status.model is not None
    entry = written(json_format.MessageToDict(status_message(status)))
    return entry, written(_for_openai(status)) if is_there else None


def _joined(entries: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    models = b'"models":[%s],' % b",".join([own for own, _ in entries]) if entries else b""
    return b'{%s"object":"list","data":[%s]}' % (models, b",".join([each for _, each in entries if each is not None]))


def _for_openai(status: VersionStatus[Model]) -> dict[str, Any]:
    """Give the fields of a model in OpenAI's API. created: when the bundle's files were written; 0 while unknown."""
    written_at = () if status.model is None else [each[3] for each in status.model.schema.served.stamps.values()]
    created = max(written_at, default=0) // 10**9
    return {"id": status.name, "object": "model", "created": created, "owned_by": "limelight"}


def _parsed_options(data: bytes) -> Attention:
    return _read_options(orjson.loads(data))


def _read_options(value: Any, *, is_large: bool = False) -> Attention:
    message = read_message(attention_pb2.AttentionOptions, value, ("attention",))
    return attention_of(message, is_large=is_large)
