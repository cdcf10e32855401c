"""Models and their states as messages of limelight.v1, of which every encoding makes its own form."""

from limelight.v1 import service_pb2
from limelight_service.frontend.models import Model
from limelight_service.frontend.schema import ModelSchema
from limelight_service.repository.catalogue import State, VersionStatus

_STATES = {
    State.LOADING: service_pb2.MODEL_STATE_LOADING,
    State.READY: service_pb2.MODEL_STATE_READY,
    State.FAILED: service_pb2.MODEL_STATE_FAILED,
}


def described_model(schema: ModelSchema) -> service_pb2.GetModelResponse:
    """Give the part of a GetModelResponse that is the same for every call: many classes take a while."""
    response = service_pb2.GetModelResponse(description=schema.description, bundle_digest=schema.served.digest)
    for graph in schema.served.graphs:
        message_of_graph = response.graphs.add(name=graph.name, provider=graph.provider)
        for provider, nodes in graph.nodes.items():
            message_of_graph.nodes.add(provider=provider, nodes=nodes)
    return response


def status_message(status: VersionStatus[Model]) -> service_pb2.ModelStatus:
    """Give the state of a version as a message."""
    message = service_pb2.ModelStatus(state=_STATES[status.state], reason=status.reason, is_default=status.is_default)
    message.model.name, message.model.version = status.name, status.version
    if status.model is not None:
        description = status.model.schema.description
        message.title, message.task = description.title, description.task
    return message
