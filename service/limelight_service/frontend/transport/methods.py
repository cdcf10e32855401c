"""The methods of a service as plain functions of a message and a call."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from limelight_service.frontend.call import Call
from limelight_service.frontend.status import Status

# Handlers answer a message, or its bytes.
UnaryHandler = Callable[[Any, Call], Awaitable[Message | bytes]]
StreamHandler = Callable[[Any, Call], AsyncGenerator[Message | bytes, None]]


@dataclass(frozen=True)
class UnaryMethod:
    """A method that answers once. request: the type of its request."""

    name: str
    request: type[Message]
    handle: UnaryHandler


@dataclass(frozen=True)
class StreamMethod:
    """A method that answers with a stream. request: the type of its request."""

    name: str
    request: type[Message]
    handle: StreamHandler


@dataclass(frozen=True)
class DuplexMethod:
    """A method whose caller sends requests on one stream, each of which is answered with messages, in order.

    request: the type of its requests. refuse: makes the message that a request gets in place of an answer; the stream
    goes on.
    """

    name: str
    request: type[Message]
    handle: StreamHandler
    refuse: Callable[[Any, Status], Message]


Method = UnaryMethod | StreamMethod | DuplexMethod
