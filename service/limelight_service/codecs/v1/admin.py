"""`AdminService` of limelight.v1: loading and unloading in a running server."""

from limelight.v1 import admin_pb2
from limelight_bundle.errors import InputError
from limelight_service.codecs.status import status_message
from limelight_service.frontend.call import Call
from limelight_service.frontend.core import Core
from limelight_service.frontend.transport.methods import Method, UnaryMethod

ADMIN_SERVICE = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name


class AdminService:
    """The methods of the service over one core."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def methods(self) -> tuple[Method, ...]:
        """List the methods by name, with the type of their request."""
        return (
            UnaryMethod("LoadModel", admin_pb2.LoadModelRequest, self.load_model),
            UnaryMethod("UnloadModel", admin_pb2.UnloadModelRequest, self.unload_model),
        )

    async def load_model(self, message: admin_pb2.LoadModelRequest, call: Call) -> admin_pb2.LoadModelResponse:
        """Load a version of the repository's folder. Raises: InputError for a negative version."""
        if message.model.version < 0:
            raise InputError("model.version", f"is {message.model.version}; it is a version, or 0 for the highest")
        status = await self._core.load(message.model.name, message.model.version, call)
        return admin_pb2.LoadModelResponse(status=status_message(status))

    async def unload_model(self, message: admin_pb2.UnloadModelRequest, call: Call) -> admin_pb2.UnloadModelResponse:
        """Unload a version."""
        await self._core.unload(message.model.name, message.model.version, call)
        return admin_pb2.UnloadModelResponse()
