"""ListModels and GetModel: what there is, and everything about one of it."""

from limelight.v1 import service_pb2
from service.access.caller import Globs
from service.repository import Repository, State, VersionStatus
from service.rpc.budget import Budget
from service.rpc.call import Call
from service.settings import Settings

_STATES = {
    State.LOADING: service_pb2.MODEL_STATE_LOADING,
    State.READY: service_pb2.MODEL_STATE_READY,
    State.FAILED: service_pb2.MODEL_STATE_FAILED,
}
_Entry = tuple[str, int, State, str, bool, str]
_MOST_KEPT = 64


class Listing:
    """Describes the models of a repository.

    held: the budget of answers, until gRPC has taken them.
    """

    def __init__(self, settings: Settings, repository: Repository, held: Budget) -> None:
        self._settings = settings
        self._repository = repository
        self._held = held
        self._changes = -1
        self._entries: dict[_Entry, bytes] = {}
        self._responses: dict[Globs, bytes] = {}  # by the models that a caller may know of

    async def list_models(self, request: service_pb2.ListModelsRequest, call: Call) -> bytes:
        """List every version that the caller may know of, those that failed to load too. The answer is kept until
        something changes, and then what it says of the others: messages of one entry each, one after the other, are a
        message of all.
        """
        if self._changes != self._repository.changes:
            known, statuses = self._entries, self._repository.statuses()
            keys = [_entry(status) for status in statuses]
            self._entries = {
                key: known.get(key) or service_pb2.ListModelsResponse(models=[_status(status)]).SerializeToString()
                for key, status in zip(keys, statuses, strict=True)
            }
            self._responses.clear()
            self._changes = self._repository.changes
        models = call.caller.models
        response = self._responses.get(models)
        if response is None:
            if len(self._responses) >= _MOST_KEPT:
                self._responses.clear()
            response = b"".join([entry for key, entry in self._entries.items() if call.caller.sees(key[0])])
            self._responses[models] = response
        self._hold(len(response), call)
        return response

    async def get_model(self, request: service_pb2.GetModelRequest, call: Call) -> bytes:
        """Describe one version; of one that failed, say why.

        Raises: ModelNotFoundError, naming what there is.
        """
        status = self._repository.status(request.model.name, request.model.version, sees=call.caller.sees)
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
        data = response.SerializeToString()
        self._hold(len(data), call)
        return data

    def _hold(self, size: int, call: Call) -> None:
        """Hold the copy that gRPC makes of an answer. Raises: QueueFullError where others hold too much."""
        call.when_sent(self._held.take(size).release)


def _entry(status: VersionStatus) -> _Entry:
    """Give what decides an entry, without the model itself, which is to be freed when it is unloaded."""
    digest = "" if status.model is None else status.model.digest
    return status.name, status.version, status.state, status.reason, status.is_default, digest


def _status(status: VersionStatus) -> service_pb2.ModelStatus:
    message = service_pb2.ModelStatus(state=_STATES[status.state], reason=status.reason, is_default=status.is_default)
    message.model.name, message.model.version = status.name, status.version
    if status.model is not None:
        message.title, message.task = status.model.description.title, status.model.description.task
    return message
