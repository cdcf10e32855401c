"""ListModels and GetModel: what there is, and everything about one of it."""

from limelight.v1 import service_pb2
from service.repository import Repository, State, VersionStatus
from service.rpc.call import Call
from service.settings import Settings

_STATES = {
    State.LOADING: service_pb2.MODEL_STATE_LOADING,
    State.READY: service_pb2.MODEL_STATE_READY,
    State.FAILED: service_pb2.MODEL_STATE_FAILED,
}


class Listing:
    """Describes the models of a repository."""

    def __init__(self, settings: Settings, repository: Repository) -> None:
        self._settings = settings
        self._repository = repository
        self._listed: tuple[VersionStatus, ...] | None = None
        self._response = b""

    async def list_models(self, request: service_pb2.ListModelsRequest, call: Call) -> bytes:
        """List every version, those that failed to load too; the answer is kept until something changes."""
        listed = self._repository.statuses()
        if listed is not self._listed:
            response = service_pb2.ListModelsResponse(models=map(_status, listed))
            self._listed, self._response = listed, response.SerializeToString()
        return self._response

    async def get_model(self, request: service_pb2.GetModelRequest, call: Call) -> service_pb2.GetModelResponse:
        """Describe one version; of one that failed, say why.

        Raises: ModelNotFoundError, naming what there is.
        """
        status = self._repository.status(request.model.name, request.model.version)
        call.model, call.version = status.name, status.version
        response = service_pb2.GetModelResponse(
            status=_status(status), max_response_bytes=self._settings.max_response_bytes
        )
        model = status.model
        if model is not None:
            response.description.CopyFrom(model.description)
            response.bundle_digest = model.digest
            for graph in model.graphs:
                message = response.graphs.add(name=graph.name, provider=graph.provider)
                for provider, nodes in graph.nodes.items():
                    message.nodes.add(provider=provider, nodes=nodes)
        return response


def _status(status: VersionStatus) -> service_pb2.ModelStatus:
    message = service_pb2.ModelStatus(state=_STATES[status.state], reason=status.reason, is_default=status.is_default)
    message.model.name, message.model.version = status.name, status.version
    if status.model is not None:
        message.title, message.task = status.model.description.title, status.model.description.task
    return message
