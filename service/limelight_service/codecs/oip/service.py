"""`inference.GRPCInferenceService`: each method translates a message, calls the core, and translates the answer."""

from collections.abc import AsyncGenerator, Callable, Sized
from contextlib import aclosing
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from limelight.base.version import version as installed
from limelight_bundle.errors import InputError
from limelight_service.codecs.oip.metadata import configuration, metadata
from limelight_service.codecs.oip.outputs import OutputCatalogue
from limelight_service.codecs.oip.requests import (
    InferCall,
    InferRequest,
    deadline_of,
    infer_call,
    request_of,
    version_of,
)
from limelight_service.codecs.oip.responses import TokenResponses, error_response, infer_response, stream_response
from limelight_service.codecs.oip.statistics import statistics_message
from limelight_service.errors import ModelNotFoundError, ModelRefusedError, ModelUnavailableError
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import AnswerEncoder, Inference
from limelight_service.frontend.core import Core
from limelight_service.frontend.models import Model
from limelight_service.frontend.schema import ModelSchema
from limelight_service.frontend.status import Status
from limelight_service.frontend.transport.methods import DuplexMethod, Method, UnaryMethod
from limelight_service.ipc.boundary import TokenResult
from limelight_service.observability.statistics import VersionStatistics
from limelight_service.open_inference import open_inference_pb2 as pb
from limelight_service.repository.catalogue import State, VersionStatus

SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name
EXTENSIONS = ("model_configuration", "model_repository", "parameters", "statistics", "limelight_attention")
_STATES = {State.LOADING: "LOADING", State.READY: "READY", State.FAILED: "UNAVAILABLE"}

S = TypeVar("S", bound=Sized)


class InferenceService:
    """The methods of the service over one core. For one event loop.

    most_rows: of one call. is_ready: tells whether the server can answer.
    """

    def __init__(self, core: Core, most_rows: int, is_ready: Callable[[], bool]) -> None:
        self._core = core
        self._most_rows = most_rows
        self._is_ready = is_ready
        self._catalogues: WeakKeyDictionary[ModelSchema, OutputCatalogue] = WeakKeyDictionary()

    def methods(self) -> tuple[Method, ...]:
        """List the methods by name, with the type of their request."""
        return (
            UnaryMethod("ServerLive", pb.ServerLiveRequest, self.server_live),
            UnaryMethod("ServerReady", pb.ServerReadyRequest, self.server_ready),
            UnaryMethod("ModelReady", pb.ModelReadyRequest, self.model_ready),
            UnaryMethod("ServerMetadata", pb.ServerMetadataRequest, self.server_metadata),
            UnaryMethod("ModelMetadata", pb.ModelMetadataRequest, self.model_metadata),
            UnaryMethod("ModelInfer", pb.ModelInferRequest, self.model_infer),
            DuplexMethod("ModelStreamInfer", pb.ModelInferRequest, self.model_stream_infer, _refused),
            UnaryMethod("ModelConfig", pb.ModelConfigRequest, self.model_config),
            UnaryMethod("ModelStatistics", pb.ModelStatisticsRequest, self.model_statistics),
            UnaryMethod("RepositoryIndex", pb.RepositoryIndexRequest, self.repository_index),
            UnaryMethod("RepositoryModelLoad", pb.RepositoryModelLoadRequest, self.repository_model_load),
            UnaryMethod("RepositoryModelUnload", pb.RepositoryModelUnloadRequest, self.repository_model_unload),
        )

    async def server_live(self, message: pb.ServerLiveRequest, call: Call) -> pb.ServerLiveResponse:
        """Tell that the server runs."""
        return pb.ServerLiveResponse(live=True)

    async def server_ready(self, message: pb.ServerReadyRequest, call: Call) -> pb.ServerReadyResponse:
        """Tell whether the server can answer."""
        return pb.ServerReadyResponse(ready=self._is_ready())

    async def model_ready(self, message: pb.ModelReadyRequest, call: Call) -> pb.ModelReadyResponse:
        """Tell whether a model can answer; one that is not there cannot."""
        try:
            self._core.find(message.name, version_of(message.version, "version"), call)
        except (ModelNotFoundError, ModelRefusedError, ModelUnavailableError):
            return pb.ModelReadyResponse(ready=False)
        return pb.ModelReadyResponse(ready=True)

    async def server_metadata(self, message: pb.ServerMetadataRequest, call: Call) -> pb.ServerMetadataResponse:
        """Name the server."""
        return pb.ServerMetadataResponse(name="limelight", version=installed(), extensions=EXTENSIONS)

    async def model_metadata(self, message: pb.ModelMetadataRequest, call: Call) -> pb.ModelMetadataResponse:
        """Describe a model's inputs and outputs."""
        schema = self._found(message.name, message.version, "version", call).schema
        statuses = self._core.list_models(call)
        versions = [each.version for each in statuses if each.name == schema.name and each.state is State.READY]
        return metadata(schema, versions, self._outputs(schema))

    async def model_config(self, message: pb.ModelConfigRequest, call: Call) -> pb.ModelConfigResponse:
        """Describe a model in the form of a configuration."""
        schema = self._found(message.name, message.version, "version", call).schema
        return pb.ModelConfigResponse(config=configuration(schema, self._most_rows, self._outputs(schema)))

    async def model_infer(self, message: pb.ModelInferRequest, call: Call) -> bytes:
        """Answer every row."""
        return await self.infer(message.model_name, message.model_version, request_of(message), infer_response, call)

    async def infer(
        self,
        name: str,
        version: str,
        asked: InferRequest,
        encode: Callable[[Inference, InferCall], S],
        call: Call,
    ) -> S:
        """Answer a request in any form of the protocol. encode: writes the answer."""
        _, translated = await self._translated(name, version, asked, call)
        return await self._answered(translated, encode, call)

    async def model_stream_infer(self, message: pb.ModelInferRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer one request of a stream: token by token where the model generates."""
        asked = request_of(message)
        model, translated = await self._translated(message.model_name, message.model_version, asked, call)
        if not model.schema.generates:
            yield await self._answered(translated, stream_response, call)
            return
        if len(translated.request.instances) != 1:
            raise InputError("rows", f"are {len(translated.request.instances)}; a stream generates one row a request")
        responses: TokenResponses | None = None
        try:
            async with aclosing(self._core.generate(translated.request, call)) as events:
                async for event in events:
                    if isinstance(event, tuple):
                        checked, prepared, _ = event
                        responses = TokenResponses(checked, prepared.row.labels, translated)
                        continue
                    assert responses is not None
                    if isinstance(event, TokenResult):
                        yield responses.token(event)
                    else:
                        data = await self._core.made(checked, partial(responses.end, event), call)
                        yield data
        except InputError as error:
            raise translated.paths.translated(error) from error

    async def model_statistics(self, message: pb.ModelStatisticsRequest, call: Call) -> pb.ModelStatisticsResponse:
        """Count the calls of one model, or of all, in every process of the server."""
        if message.name:
            self._core.describe(message.name, version_of(message.version, "version"), call)
        counted = await self._core.statistics()
        response = pb.ModelStatisticsResponse()
        for each in self._core.list_models(call):
            is_asked = message.name in ("", each.name) and message.version in ("", str(each.version))
            if is_asked and each.state is State.READY:
                of = counted.get((each.name, each.version), VersionStatistics())
                response.model_stats.append(statistics_message(each.name, each.version, of))
        return response

    async def repository_index(self, message: pb.RepositoryIndexRequest, call: Call) -> pb.RepositoryIndexResponse:
        """List every version that the caller may know of."""
        _check_repository(message.repository_name, "")
        response = pb.RepositoryIndexResponse()
        for each in self._core.list_models(call):
            if each.state is State.READY or not message.ready:
                state = _STATES[each.state]
                response.models.add(name=each.name, version=str(each.version), state=state, reason=each.reason)
        self._core.hold_answer(response.ByteSize(), call)
        return response

    async def repository_model_load(
        self, message: pb.RepositoryModelLoadRequest, call: Call
    ) -> pb.RepositoryModelLoadResponse:
        """Load the highest version of a model that the folder has. Raises: ModelRefusedError where it is refused."""
        _check_repository(message.repository_name, message.model_name)
        for name in message.parameters:
            raise InputError(("parameters", name[:64]), "is not supported: models come from the repository's folder")
        _check_loaded(await self._core.load(message.model_name, 0, call))
        return pb.RepositoryModelLoadResponse()

    async def repository_model_unload(
        self, message: pb.RepositoryModelUnloadRequest, call: Call
    ) -> pb.RepositoryModelUnloadResponse:
        """Unload all versions of a model."""
        _check_repository(message.repository_name, message.model_name)
        for name in message.parameters.keys() - {"unload_dependents"}:
            raise InputError(("parameters", name[:64]), "is no parameter here; there is unload_dependents")
        await self._core.unload_all(message.model_name, call)
        return pb.RepositoryModelUnloadResponse()

    async def _translated(self, name: str, version: str, asked: InferRequest, call: Call) -> tuple[Model, InferCall]:
        """Find the model of a request, and translate it: a large one on a thread."""
        call.deadline = deadline_of(asked, call)
        model = self._found(name, version, "model_version", call)
        translate = partial(infer_call, asked, model, self._outputs(model.schema))
        return model, await self._core.on_thread(translate, call) if asked.is_large else translate()

    async def _answered(self, translated: InferCall, encode: Callable[[Inference, InferCall], S], call: Call) -> S:
        try:
            encoder = AnswerEncoder(lambda inference: encode(inference, translated))
            return await self._core.answer(translated.request, encoder, call)
        except InputError as error:
            raise translated.paths.translated(error) from error

    def _found(self, name: str, version: str, path: str, call: Call) -> Model:
        return self._core.find(name, version_of(version, path), call)

    def _outputs(self, schema: ModelSchema) -> OutputCatalogue:
        found = self._catalogues.get(schema)
        if found is None:
            found = self._catalogues[schema] = OutputCatalogue(schema)
        return found


def _refused(request: pb.ModelInferRequest, status: Status) -> pb.ModelStreamInferResponse:
    return error_response(request, status.code.name, status.message)


def _check_repository(repository: str, model: str) -> None:
    if repository and not model:
        raise InputError(
            "repository_name",
            f"is {repository[:64]!r}: there is one repository, without a name. A model's name is field 2, as in "
            "Triton's protocol",
        )
    if repository:
        raise InputError("repository_name", f"is {repository[:64]!r}: there is one repository, without a name")


def _check_loaded(status: VersionStatus[Model]) -> None:
    """Raise ModelRefusedError where a version was refused, ModelUnavailableError where it is still loading."""
    if status.state is State.FAILED:
        raise ModelRefusedError(f"{status.name} version {status.version} was refused: {status.reason}")
    if status.state is State.LOADING:
        raise ModelUnavailableError(f"{status.name} version {status.version} is still being loaded")
