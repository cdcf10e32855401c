"""gRPC's health protocol. One request and response are used, so the package grpcio-health-checking is not needed."""

from typing import Any

import grpc

_CHECK = "/grpc.health.v1.Health/Check"
_EVERYTHING = b""  # an empty request asks for the whole server
_SERVING = b"\x08\x01"  # field 1 with value 1
_NOBODY = "backend unhealthy"  # gRPC's words where it watches health itself and every server says NOT_SERVING


def check(channel: Any) -> Any:
    """Return the health call on a synchronous or asynchronous channel; it returns readiness."""
    return channel.unary_unary(
        _CHECK, request_serializer=lambda _: _EVERYTHING, response_deserializer=lambda data: data == _SERVING
    )


def says_not_ready(error: grpc.RpcError) -> bool:
    """Return whether gRPC sent a call to nobody, since no server of the target says that it can answer."""
    return error.code() is grpc.StatusCode.UNAVAILABLE and _NOBODY in (error.details() or "")
