"""`AttentionService` of limelight.v1: each method translates a message, calls the core, and translates the answer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import lru_cache
from weakref import WeakKeyDictionary

from limelight.v1 import attention_pb2, service_pb2
from limelight_service.codecs.answers import LabelEncoder
from limelight_service.codecs.explanations import asked_of
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
from limelight_service.codecs.v1.instances import MessageInstances
from limelight_service.codecs.v1.responses import (
    ATTEND,
    PREDICT,
    GenerationMessages,
    MapStreamMessages,
    explained,
    label_set,
    tokenized,
)
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest
from limelight_service.frontend.core import Core
from limelight_service.frontend.explaining.explain import explain
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.schema import ModelSchema
from limelight_service.frontend.transport.methods import Method, StreamMethod, UnaryMethod
from limelight_service.repository.catalogue import VersionStatus

SERVICE = service_pb2.DESCRIPTOR.services_by_name["AttentionService"].full_name
_WITH_HIDDEN = (service_pb2.PredictRequest, service_pb2.AttendRequest)  # requests that may ask for hidden states


class AttentionService:
    """The methods of the service over one core. For one event loop."""

    def __init__(self, core: Core, max_response_bytes: int) -> None:
        self._core = core
        self._max_response_bytes = max_response_bytes
        self._encode_labels = LabelEncoder(label_set)
        self._listing = Listing(core, _list_entry, b"".join)
        self._described: WeakKeyDictionary[ModelSchema, bytes] = WeakKeyDictionary()
        self._options = lru_cache(MOST_OPTIONS)(_parsed_options)
        self._kept = lru_cache(MOST_OPTIONS)(CallOptions)  # so that models find them again

    def methods(self) -> tuple[Method, ...]:
        """List the methods by name, with the type of their request."""
        pb = service_pb2
        return (
            UnaryMethod("Predict", pb.PredictRequest, self.predict),
            UnaryMethod("Attend", pb.AttendRequest, self.attend),
            StreamMethod("AttendStream", pb.AttendStreamRequest, self.attend_stream),
            StreamMethod("Generate", pb.GenerateRequest, self.generate),
            UnaryMethod("Tokenize", pb.TokenizeRequest, self.tokenize),
            UnaryMethod("Explain", pb.ExplainRequest, self.explain),
            UnaryMethod("ListModels", pb.ListModelsRequest, self.list_models),
            UnaryMethod("GetModel", pb.GetModelRequest, self.get_model),
        )

    async def predict(self, message: service_pb2.PredictRequest, call: Call) -> bytes:
        """Answer without attention."""
        request = self._request(message, MessageInstances(message.instances), NO_ATTENTION)
        return await self._core.answer(request, PREDICT, call)

    async def attend(self, message: service_pb2.AttendRequest, call: Call) -> bytes:
        """Answer with the attention behind it."""
        request = self._request(message, MessageInstances(message.instances), await self._attention(message, call))
        return await self._core.answer(request, ATTEND, call)

    async def attend_stream(self, message: service_pb2.AttendStreamRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer with the attention behind it, chunk by chunk, one instance after the other."""
        request = self._request(message, MessageInstances(message.instances), await self._attention(message, call))
        async with aclosing(map_stream(self._core, request, call, MapStreamMessages)) as parts:
            async for data in parts:
                yield data

    async def generate(self, message: service_pb2.GenerateRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer token by token; the limit on an answer's bytes counts the whole stream."""
        attention = await self._attention(message, call) if message.HasField("attention") else NO_ATTENTION
        instances = MessageInstances([message.instance], ("instance",))
        request = self._request(message, instances, attention)
        async with aclosing(generation(self._core, request, call, GenerationMessages)) as parts:
            async for data in parts:
                yield data

    async def tokenize(self, message: service_pb2.TokenizeRequest, call: Call) -> bytes:
        """Cut texts into tokens."""
        instances, options = MessageInstances(message.instances), self._kept(truncate=message.truncate)
        name, version = message.model.name, message.model.version
        request = CallRequest(name, version, instances, self._encode_labels, options)
        data = tokenized(await self._core.tokenize(request, call))
        self._core.hold_answer(len(data), call)
        return data

    async def explain(self, message: service_pb2.ExplainRequest, call: Call) -> bytes:
        """Tell what of its input each answer depends on."""
        target, similar = message.target, None
        if target.HasField("similar_to"):
            similar = MessageInstances([target.similar_to], ("target", "similar_to"))
        asked = await self._core.on_thread(lambda: asked_of(message, similar), call)
        request = self._request(message, MessageInstances(message.instances), NO_ATTENTION, explains=True)
        found = await explain(self._core, request, asked, call)
        data = await self._core.made(found.checked, lambda: explained(found), call)
        self._core.hold_answer(2 * len(data), call)
        return data

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
                described = self._described[schema] = described_model(schema).SerializeToString()
            data += described
        self._core.hold_answer(len(data), call)
        return data

    def _request(
        self,
        message: service_pb2.PredictRequest
        | service_pb2.AttendRequest
        | service_pb2.AttendStreamRequest
        | service_pb2.GenerateRequest
        | service_pb2.ExplainRequest,
        instances: MessageInstances,
        attention: Attention,
        *,
        explains: bool = False,
    ) -> CallRequest:
        of_tokens = isinstance(message, service_pb2.GenerateRequest)
        hidden = None
        if isinstance(message, _WITH_HIDDEN) and message.HasField("hidden"):
            hidden = hidden_options(message.hidden)
        return CallRequest(
            model=message.model.name,
            version=message.model.version,
            instances=instances,
            encode_labels=self._encode_labels,
            options=self._kept(
                () if of_tokens or explains else tuple(message.outputs) or None,  # type: ignore[union-attr]
                0 if of_tokens else message.max_classes,  # type: ignore[union-attr]
                message.truncate,
                attention.options,
                AskedGeneration(message.generation.SerializeToString()) if message.HasField("generation") else None,
                attention.limit,
                (),
                attention.is_large,
                hidden=hidden,
            ),
        )

    async def _attention(
        self,
        message: service_pb2.AttendRequest | service_pb2.AttendStreamRequest | service_pb2.GenerateRequest,
        call: Call,
    ) -> Attention:
        """Check and translate attention options; many indices, names or groups on a thread."""
        data = message.attention.SerializeToString()
        if len(data) <= SMALL_OPTIONS:
            return self._options(data)
        return await self._core.on_thread(lambda: attention_of(message.attention, is_large=True), call)


def _list_entry(status: VersionStatus[Model]) -> bytes:
    """Serialize a list of one entry: such messages, one after the other, are a message of all."""
    return service_pb2.ListModelsResponse(models=[status_message(status)]).SerializeToString()


def _parsed_options(message: bytes) -> Attention:
    return attention_of(attention_pb2.AttentionOptions.FromString(message))
