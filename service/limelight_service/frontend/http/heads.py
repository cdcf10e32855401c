"""Checks of a request's head before anything is done: that it can be read in one way alone, and that no page of another
origin has a browser send it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from limelight_bundle.errors import InputError
from limelight_service.errors import ForbiddenError
from limelight_service.frontend.http.failures import Failure, HeadTooLargeError, VersionError, failure_of
from limelight_service.frontend.http.methods import HEADERS, JSON
from limelight_service.frontend.status import REQUEST_ID_KEY, status_of
from limelight_service.observability.logs import request_id
from limelight_service.platform.addresses import is_foreign, is_loopback
from limelight_service.settings import Settings

_MOST_FIELDS = 256
# Fields that are read here and have one value. Whoever reads the first, or the last, reads another request.
_SINGLE = frozenset(
    "authorization content-encoding content-length content-type host inference-header-content-length origin "
    "sec-fetch-mode sec-fetch-site traceparent transfer-encoding x-request-id x-request-timeout".split()
)
_ABSOLUTE = re.compile(r"https?://([^/?#@]+)(/.*)?", re.IGNORECASE)
_OF_OTHERS = ("cross-site", "same-site")
_WITHOUT_EFFECT = ("GET", "HEAD")


class CheckedHeads:
    """An ASGI application behind these checks. failed: makes the JSON of an error at a path."""

    def __init__(
        self, application: Callable[..., Awaitable[None]], settings: Settings, failed: Callable[[str, Failure], Any]
    ) -> None:
        self._application = application
        self._failed = failed
        self._origins = frozenset(settings.origins)
        # Elsewhere tokens or certificates protect a server, which a page has not, and it may have any name.
        is_open = not settings.tokens and not settings.tls_cert and is_loopback(settings.host)
        self._checks_host = is_open and "*" not in self._origins
        self._names = {settings.host.lower(), *(urlsplit(each).hostname or "" for each in self._origins)}

    def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> Awaitable[None]:
        """Refuse a request, or have it answered."""
        try:
            headers = _read(scope)
            _check_framing(scope, headers)
            _take_authority(scope, headers)
            self._check_host(headers)
            self._check_page(scope["method"], headers)
        except (InputError, ForbiddenError) as error:
            return self._refuse(scope, send, error)
        return self._application(scope, receive, send)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        """Refuse a name of somebody else, where nothing but the name tells a page there from one of this server."""
        host = headers.get("host", "")
        if self._checks_host and is_foreign(host, self._names):
            raise ForbiddenError(
                f"host is {host[:64]!r}, no name of this server; call it by localhost or by its address"
            )

    def _check_page(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse what a page of another origin sends, unless it may; and what a page sends that does not say which."""
        origin = headers.get("origin")
        if "*" in self._origins or origin in self._origins:
            return
        if origin is None:
            is_refused = headers.get("sec-fetch-site", "").lower() in _OF_OTHERS and method not in _WITHOUT_EFFECT
        else:
            is_refused = origin.lower().partition("://")[2] != headers.get("host", "").lower()
        if is_refused:
            named = f"origin is {origin[:64]!r}" if origin else "the request comes from a page of another origin"
            raise ForbiddenError(f"{named}, which may not call; --http-origins of the server names those that may")

    async def _refuse(self, scope: MutableMapping[str, Any], send: Any, error: InputError | ForbiddenError) -> None:
        """Tell why, and end the connection: where a request ends may be what is not known."""
        identity = request_id(scope[HEADERS].get(REQUEST_ID_KEY))
        failure = failure_of(error, status_of(error, identity))
        body = orjson.dumps(self._failed(scope["path"], failure))
        headers = {
            REQUEST_ID_KEY: identity,
            "content-type": JSON,
            "content-length": str(len(body)),
            "connection": "close",
        }
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": failure.status, "headers": encoded})
        await send({"type": "http.response.body", "body": body})


def _read(scope: MutableMapping[str, Any]) -> dict[str, str]:
    """Read the headers of a request once, for all that follows: values of one that is there twice go together.

    Raises: InputError for a second one of those that have one value; HeadTooLargeError.
    """
    fields: Sequence[tuple[bytes, bytes]] = scope["headers"]
    found: dict[str, str] = {}
    scope[HEADERS] = found
    if len(fields) > _MOST_FIELDS:
        raise HeadTooLargeError("", f"the request has {len(fields)} headers; at most {_MOST_FIELDS} are allowed")
    twice = None
    for key, value in fields:
        name, text = key.decode("latin-1"), value.decode("latin-1")
        if name in found:
            twice = twice or (name if name in _SINGLE else None)
            text = f"{found[name]}, {text}"
        found[name] = text
    if twice is not None:
        raise InputError(twice, "is there more than once; send it once")
    return found


def _check_framing(scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> None:
    """Refuse a head that others may read as another request. Raises: InputError and its kinds."""
    if not scope["http_version"].startswith("1."):
        raise VersionError("", f"the request is HTTP/{scope['http_version']}; this port speaks HTTP/1.1")
    is_sized = "content-length" in headers
    if "transfer-encoding" in headers and (is_sized or scope["http_version"] == "1.0"):
        beside = "is set beside content-length" if is_sized else "is none of HTTP/1.0"
        raise InputError("transfer-encoding", f"{beside}; send one content-length")


def _take_authority(scope: MutableMapping[str, Any], headers: dict[str, str]) -> None:
    """Cut a target that is a whole URL into its host, which then counts, and its path (RFC 9112, 3.2.2)."""
    if scope["raw_path"][:1] == b"/":
        return
    found = _ABSOLUTE.fullmatch(scope["raw_path"].decode("ascii"))
    if found is not None:
        path = found[2] or "/"
        headers["host"] = found[1]
        scope["raw_path"], scope["path"] = path.encode(), unquote(path)
