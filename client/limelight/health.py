"""gRPC's health protocol. One question and one answer of it are needed: not worth a package and its generated code."""

from typing import Any

_CHECK = "/grpc.health.v1.Health/Check"
_EVERYTHING = b""  # a request that names no service asks for the whole server
_SERVING = b"\x08\x01"  # the first field, of the value 1


def check(channel: Any) -> Any:
    """The call on a channel of either kind: takes nothing, answers whether the server is ready."""
    return channel.unary_unary(
        _CHECK, request_serializer=lambda _: _EVERYTHING, response_deserializer=lambda data: data == _SERVING
    )
