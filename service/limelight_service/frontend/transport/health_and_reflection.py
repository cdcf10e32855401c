"""The methods beside the service, health and reflection: read as carefully as the others, and from places of their own,
so that no upload keeps a probe waiting.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from limelight_bundle.errors import InputError, LimelightError
from limelight_service.admission.uploads import UploadLimiter, UploadSlots
from limelight_service.frontend.status import status_of
from limelight_service.frontend.transport.abort import abort
from limelight_service.frontend.transport.health import Health
from limelight_service.frontend.transport.response_sender import ResponseSender

HEALTH_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
REFLECTION_SERVICE = reflection.SERVICE_NAME
SLOTS = UploadSlots(quick=8, slow=4)
# Their requests are there as soon as they are asked for; a probe that comes before others who send nothing waits for
# the moments of all of them.
MOMENT = 0.004  # seconds


def health_service(health: Health, uploads: UploadLimiter, sender: ResponseSender) -> dict[str, grpc.RpcMethodHandler]:
    """Make the handler of each method of health checking."""
    kind, listing = health_pb2.HealthCheckRequest, health_pb2.HealthListResponse

    async def check(_: Any, context: Any) -> Any:
        response = await health.Check(await _read(kind, uploads, context), context)
        sent = sender.watch(context)
        context.add_done_callback(lambda _: sent())
        return response

    async def watch(_: Any, context: Any) -> None:
        async with aclosing(health.Watch(await _read(kind, uploads, context), context)) as responses:
            async for response in responses:
                await sender.write(context, response)

    async def every(_: Any, context: Any) -> Any:
        return await health.List(await _read(health_pb2.HealthListRequest, uploads, context), context)

    serialised = health_pb2.HealthCheckResponse.SerializeToString
    return {
        "List": grpc.stream_unary_rpc_method_handler(every, response_serializer=listing.SerializeToString),
        "Check": grpc.stream_unary_rpc_method_handler(check, response_serializer=serialised),
        "Watch": grpc.stream_stream_rpc_method_handler(watch, response_serializer=serialised),
    }


def reflection_service(
    names: tuple[str, ...], uploads: UploadLimiter, sender: ResponseSender
) -> dict[str, grpc.RpcMethodHandler]:
    """Make the handler of reflection, for services of these names and itself."""
    servicer = reflection.aio.ReflectionServicer((*names, REFLECTION_SERVICE))

    async def inform(_: Any, context: Any) -> None:
        async def requests() -> AsyncIterator[Any]:
            while (request := await _next(reflection_pb2.ServerReflectionRequest, uploads, context)) is not None:
                yield request

        async for response in servicer.ServerReflectionInfo(requests(), context):
            await sender.write(context, response)

    serialised = reflection_pb2.ServerReflectionResponse.SerializeToString
    return {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(inform, response_serializer=serialised)}


async def _read(kind: type[Message], uploads: UploadLimiter, context: Any) -> Any:
    request = await _next(kind, uploads, context)
    if request is None:
        await _refuse(InputError("", "there is no request in the call"), context)
    return request


async def _next(kind: type[Message], uploads: UploadLimiter, context: Any) -> Any:
    """Read the next message; None after the last."""

    async def end(error: Exception) -> None:
        await _refuse(error, context)

    try:
        data = await uploads.message(context, end)
        return None if data is None else kind.FromString(data)
    except DecodeError:
        await _refuse(InputError("", f"the request is not a message of type {kind.DESCRIPTOR.full_name}"), context)
    except LimelightError as error:
        await _refuse(error, context)


async def _refuse(error: Exception, context: Any) -> None:
    status = status_of(error, "")
    await abort(context, status.code, status.message, status.trailing)
