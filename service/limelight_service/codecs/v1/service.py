"""`AttentionService` of limelight.v1: each method translates a message, calls the core, and translates the answer."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import lru_cache, partial
from weakref import WeakKeyDictionary

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_service.attention.options import Options
from limelight_service.codecs.v1.instances import MessageInstances
from limelight_service.codecs.v1.requests import attention_options, generation_settings
from limelight_service.codecs.v1.responses import (
    ATTEND,
    PREDICT,
    GenerationMessages,
    LabelEncoder,
    MapStreamMessages,
)
from limelight_service.codecs.v1.status import status_message
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest
from limelight_service.frontend.core import Core
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.schema import ModelSchema
from limelight_service.frontend.transport.methods import Method, StreamMethod, UnaryMethod
from limelight_service.ipc.boundary import ChunkResult, GenerationSettings, TokenResult
from limelight_service.observability.observer import Stage
from limelight_service.repository.catalogue import State, VersionStatus
from limelight_service.security.caller import Globs

SERVICE = service_pb2.DESCRIPTOR.services_by_name["AttentionService"].full_name

# Bytes of attention options up to which they are translated on the event loop, and kept for the next call.
_SMALL_OPTIONS = 256
_MOST_KEPT = 64
_LARGE_CHUNK = 2**18  # bytes of weights from which a chunk is written on a thread

_Entry = tuple[str, int, State, str, bool, str]


class AttentionService:
    """The methods of the service over one core. For one event loop."""

    def __init__(self, core: Core, max_response_bytes: int) -> None:
        self._core = core
        self._max_response_bytes = max_response_bytes
        self._encode_labels = LabelEncoder()
        self._listing = _Listing(core)
        self._described: WeakKeyDictionary[ModelSchema, bytes] = WeakKeyDictionary()
        self._options = lru_cache(_MOST_KEPT)(_parsed_options)
        self._kept = lru_cache(_MOST_KEPT)(CallOptions)  # so that models find them again

    def methods(self) -> tuple[Method, ...]:
        """List the methods by name, with the type of their request."""
        pb = service_pb2
        return (
            UnaryMethod("Predict", pb.PredictRequest, self.predict),
            UnaryMethod("Attend", pb.AttendRequest, self.attend),
            StreamMethod("AttendStream", pb.AttendStreamRequest, self.attend_stream),
            StreamMethod("Generate", pb.GenerateRequest, self.generate),
            UnaryMethod("ListModels", pb.ListModelsRequest, self.list_models),
            UnaryMethod("GetModel", pb.GetModelRequest, self.get_model),
        )

    async def predict(self, message: service_pb2.PredictRequest, call: Call) -> bytes:
        """Answer without attention."""
        return await self._core.answer(self._request(message, message.instances), PREDICT, call)

    async def attend(self, message: service_pb2.AttendRequest, call: Call) -> bytes:
        """Answer with the attention behind it."""
        options = await self._attention(message.attention, call)
        request = self._request(message, message.instances, attention=message.attention, options=options)
        return await self._core.answer(request, ATTEND, call)

    async def attend_stream(self, message: service_pb2.AttendStreamRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer with the attention behind it, chunk by chunk, one instance after the other."""
        options = await self._attention(message.attention, call)
        request = self._request(message, message.instances, attention=message.attention, options=options)
        messages: MapStreamMessages | None = None
        async with aclosing(self._core.stream_maps(request, call)) as events:
            async for event in events:
                if isinstance(event, tuple):
                    checked, place, prediction, begun = event
                    messages = MapStreamMessages(checked, place)
                    (data,) = await self._core.made(checked, [partial(messages.begin, prediction, begun)], call)
                    yield data
                    continue
                assert messages is not None
                if isinstance(event, ChunkResult):
                    large = event.map.weights.nbytes >= _LARGE_CHUNK
                    yield await asyncio.to_thread(messages.chunk, event) if large else messages.chunk(event)
                else:
                    self._core.stage(Stage.ENCODE, messages.nanoseconds, call)
                    yield messages.end()

    async def generate(self, message: service_pb2.GenerateRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer token by token; the limit on an answer's bytes counts the whole stream."""
        attention = message.attention if message.HasField("attention") else None
        options = None if attention is None else await self._attention(attention, call)
        request = self._request(message, [message.instance], attention=attention, options=options, field="instance")
        messages: GenerationMessages | None = None
        async with aclosing(self._core.generate(request, call)) as events:
            async for event in events:
                if isinstance(event, tuple):
                    checked, prepared, begun = event
                    messages = GenerationMessages(checked, prepared)
                    (data,) = await self._core.made(checked, [partial(messages.begin, begun)], call)
                    yield data
                    continue
                assert messages is not None
                if isinstance(event, TokenResult):
                    yield messages.token(event)
                else:
                    (data,) = await self._core.made(checked, [partial(messages.end, event)], call)
                    yield data

    async def list_models(self, message: service_pb2.ListModelsRequest, call: Call) -> bytes:
        """List every version that the caller may know of."""
        response = self._listing.response(call)
        self._core.hold_answer(len(response), call)
        return response

    async def get_model(self, message: service_pb2.GetModelRequest, call: Call) -> bytes:
        """Describe one version; of one that failed, give the reason."""
        status = self._core.describe(message.model.name, message.model.version, call)
        data = service_pb2.GetModelResponse(
            status=status_message(status), max_response_bytes=self._max_response_bytes
        ).SerializeToString()
        if status.model is not None:
            schema = status.model.schema
            described = self._described.get(schema)
            if described is None:
                described = self._described[schema] = _described(schema)
            data += described
        self._core.hold_answer(len(data), call)
        return data

    def _request(
        self,
        message: service_pb2.PredictRequest
        | service_pb2.AttendRequest
        | service_pb2.AttendStreamRequest
        | service_pb2.GenerateRequest,
        instances: Sequence[values_pb2.Instance],
        *,
        attention: attention_pb2.AttentionOptions | None = None,
        options: Options | None = None,
        field: str = "instances[{}]",
    ) -> CallRequest:
        of_tokens = isinstance(message, service_pb2.GenerateRequest)
        return CallRequest(
            model=message.model.name,
            version=message.model.version,
            instances=MessageInstances(instances, field),
            encode_labels=self._encode_labels,
            options=self._kept(
                () if of_tokens else tuple(message.outputs) or None,  # type: ignore[union-attr]
                0 if of_tokens else message.max_classes,  # type: ignore[union-attr]
                message.truncate,
                options,
                AskedGeneration(message.generation.SerializeToString()) if message.HasField("generation") else None,
                0 if attention is None else attention.max_response_bytes,
                (),
                attention is not None and attention.ByteSize() > _SMALL_OPTIONS,
            ),
        )

    async def _attention(self, message: attention_pb2.AttentionOptions, call: Call) -> Options:
        """Check and translate attention options; many indices, names or groups on a thread."""
        if message.ByteSize() <= _SMALL_OPTIONS:
            return self._options(message.SerializeToString())
        return await self._core.on_thread(lambda: attention_options(message), call)


class _Listing:
    """The answer to ListModels, kept until something changes."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._changes = -1
        self._entries: dict[_Entry, bytes] = {}
        self._responses: dict[Globs, bytes] = {}  # by the models that a caller may know of

    def response(self, call: Call) -> bytes:
        """Serialize the list for a caller: messages of one entry each, one after the other, are a message of all.

        Raises: ModelUnavailableError while no model is known yet.
        """
        catalogue = self._core.models.catalogue
        if self._changes != catalogue.changes:
            known, statuses = self._entries, catalogue.statuses()
            keys = [_entry(status) for status in statuses]
            self._entries = {
                key: known.get(key)
                or service_pb2.ListModelsResponse(models=[status_message(status)]).SerializeToString()
                for key, status in zip(keys, statuses, strict=True)
            }
            self._responses.clear()
            self._changes = catalogue.changes
        if not self._entries:
            catalogue.check_complete()
        models = call.caller.models
        response = self._responses.get(models)
        if response is None:
            if len(self._responses) >= _MOST_KEPT:
                self._responses.clear()
            response = b"".join([entry for key, entry in self._entries.items() if call.caller.sees(key[0])])
            self._responses[models] = response
        return response


def _described(schema: ModelSchema) -> bytes:
    """Serialize the part of a GetModelResponse that is the same for every call: many classes take a while."""
    response = service_pb2.GetModelResponse(description=schema.description, bundle_digest=schema.served.digest)
    for graph in schema.served.graphs:
        message_of_graph = response.graphs.add(name=graph.name, provider=graph.provider)
        for provider, nodes in graph.nodes.items():
            message_of_graph.nodes.add(provider=provider, nodes=nodes)
    return response.SerializeToString()


def _entry(status: VersionStatus[Model]) -> _Entry:
    """Give what decides an entry, without the model itself, which is to be freed when it is unloaded."""
    digest = "" if status.model is None else status.model.schema.served.digest
    return status.name, status.version, status.state, status.reason, status.is_default, digest


@dataclass(frozen=True)
class AskedGeneration:
    """Generation options as they were sent, serialised."""

    message: bytes

    def __call__(self, longest: int) -> GenerationSettings:
        """Check them. longest: the model's limit of tokens. Raises: InputError."""
        return generation_settings(service_pb2.GenerationOptions.FromString(self.message), longest)


def _parsed_options(message: bytes) -> Options:
    return attention_options(attention_pb2.AttentionOptions.FromString(message))
