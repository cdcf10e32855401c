"""The methods of a service over HTTP, as plain functions of a request and a call."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from limelight_bundle.values import Array
from limelight_service.frontend.call import Call
from limelight_service.frontend.http.failures import Failure
from limelight_service.platform.negotiation import chosen

HEADERS = "limelight.headers"  # their key in a request's scope, by their names in lower case
JSON, EVENTS, BYTES = "application/json", "text/event-stream", "application/octet-stream"
# What the JSON before the bytes of arrays is long.
JSON_LENGTH_HEADER = "limelight-json-length"  # of limelight.v1
INFERENCE_LENGTH_HEADER = "inference-header-content-length"  # of the Open Inference Protocol


@dataclass(frozen=True)
class HttpRequest:
    """A request that has arrived. names: parts of its path. headers: by their names in lower case."""

    names: Mapping[str, Any]
    headers: Mapping[str, str]
    body: bytes

    @property
    def wants_bytes(self) -> bool:
        """True where the caller takes arrays as bytes rather than as JSON."""
        accepted = self.headers.get("accept")
        found = None if accepted is None else chosen(accepted, (JSON, BYTES))
        return found is not None and found.name == BYTES


@dataclass(frozen=True)
class HttpResponse:
    """An answer. parts: of its body, one after the other; arrays as their bytes."""

    parts: Sequence[bytes | Array]
    media_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HttpEvents:
    """An answer of server-sent events, where a request asks for them."""

    events: AsyncGenerator[bytes, None]


@dataclass(frozen=True)
class Served:
    """The HTTP routes of a method, and the service method as which it is counted, logged and allowed.

    path: with the names of its parts in braces. failed: makes the JSON of an error. media_types: of requests.
    right: name of the method that a token has to allow; empty for its own. summary, request: a sentence and the schema
    of requests, for the OpenAPI document where they do not follow from the name.
    """

    verb: str
    path: str
    service: str
    name: str
    failed: Callable[[Failure], Any]
    media_types: Sequence[str] = (JSON,)
    right: str = field(default="", kw_only=True)
    summary: str = field(default="", kw_only=True)
    request: Mapping[str, Any] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class UnaryHttp(Served):
    """A method that answers once, or with events where the request says so. failed_event: None where none does."""

    handle: Callable[[HttpRequest, Call], Awaitable[HttpResponse | HttpEvents]] = field(kw_only=True)
    failed_event: Callable[[Failure], bytes] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class EventsHttp(Served):
    """A method that answers with server-sent events."""

    handle: Callable[[HttpRequest, Call], AsyncGenerator[bytes, None]] = field(kw_only=True)
    failed_event: Callable[[Failure], bytes] = field(kw_only=True)


HttpMethod = UnaryHttp | EventsHttp
