"""The state of a version as a message."""

from limelight.v1 import service_pb2
from limelight_service.frontend.models import Model
from limelight_service.repository.catalogue import State, VersionStatus

_STATES = {
    State.LOADING: service_pb2.MODEL_STATE_LOADING,
    State.READY: service_pb2.MODEL_STATE_READY,
    State.FAILED: service_pb2.MODEL_STATE_FAILED,
}


def status_message(status: VersionStatus[Model]) -> service_pb2.ModelStatus:
    """Give the state of a version as a message."""
    message = service_pb2.ModelStatus(state=_STATES[status.state], reason=status.reason, is_default=status.is_default)
    message.model.name, message.model.version = status.name, status.version
    if status.model is not None:
        description = status.model.schema.description
        message.title, message.task = description.title, description.task
    return message
