"""The HTTP server of a frontend: its port, its routes, and what is answered where no route fits."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

import grpc
import orjson
import uvicorn
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router

from limelight_bundle.errors import LimelightError
from limelight_service.frontend.http.connection import Connection
from limelight_service.frontend.http.exchange import TIMEOUT_HEADER, HttpCalls
from limelight_service.frontend.http.failures import Failure, body_at
from limelight_service.frontend.http.heads import CheckedHeads
from limelight_service.frontend.http.methods import (
    INFERENCE_LENGTH_HEADER,
    JSON,
    JSON_LENGTH_HEADER,
    HttpMethod,
    HttpResponse,
)
from limelight_service.frontend.status import REQUEST_ID_KEY
from limelight_service.platform.addresses import address_of, check_free
from limelight_service.platform.descriptors import room_for
from limelight_service.security.access import Access
from limelight_service.settings import Settings

_HANDSHAKE = 10.0  # seconds
_STOPPING = 1  # seconds that connections get at the end, once no call is inside
_LARGEST_HEAD = 32 * 1024
_BACKLOG = 2048
_PATHS, _LONGEST_PATH = 1024, 256  # whose routes are kept, and their characters

_OF_REQUESTS = INFERENCE_LENGTH_HEADER, "traceparent", "tracestate"

_Page = Callable[[Request], Awaitable[Response]]


class _NameConvertor(Convertor[str]):
    """A part of a path before the colon of a method."""

    regex = "[^/:]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class HttpServer:
    """Serves methods over HTTP/1.1, beside gRPC and on the same event loop.

    calls: makes applications of methods. pages: documents by their path, open to everybody as health is. is_ready:
    tells whether the server can answer.
    """

    def __init__(
        self,
        settings: Settings,
        access: Access,
        calls: HttpCalls,
        methods: Sequence[HttpMethod],
        pages: Mapping[str, HttpResponse],
        is_ready: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._access = access
        register_url_convertor("name", _NameConvertor())
        routes = [
            *(Route(each.path, calls.endpoint(each), methods=[each.verb]) for each in methods),
            Route("/healthz", _always(HttpResponse([b'{"status":"alive"}']))),
            *(Route(path, _ready(is_ready)) for path in ("/readyz", "/health")),
            *(Route(path, _always(page)) for path, page in pages.items()),
        ]
        failed = _failed(methods)
        routed = _Routed(routes, failed)
        application = _cross_origin(routed, settings.origins) if settings.origins else routed
        self._app = CheckedHeads(application, settings, failed)

    @asynccontextmanager
    async def listening(self, *, shared: bool) -> AsyncIterator[int]:
        """Answer requests for the length of a block; gives the port.

        Args:
            shared: the port is shared with other processes that say so as well.

        Raises:
            LimelightError: the port is taken.
        """
        settings = self._settings
        listener = _listener(settings.host, settings.http_port, shared=shared)
        config = uvicorn.Config(
            self._app,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level=logging.CRITICAL,  # callers cause what it would say
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            timeout_keep_alive=round(settings.idle_seconds),
            timeout_graceful_shutdown=_STOPPING,
        )
        config.load()
        server = _Server(config, self._access.tls_context(), room_for(settings.max_connections, settings.ports))
        running = asyncio.get_running_loop().create_task(server.serve([listener]))
        try:
            await server.listens.wait()
            yield int(listener.getsockname()[1])
        finally:
            server.should_exit = True
            await running


class _Routed:
    """An ASGI application of routes, which tells as a service does that none fits. failed: makes the JSON of an error
    at a path.
    """

    def __init__(self, routes: Sequence[Route], failed: Callable[[str, Failure], Any]) -> None:
        self._routes = routes
        self._failed = failed
        self._router = Router(routes, redirect_slashes=False)
        self._found = lru_cache(maxsize=_PATHS)(self._find)

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        """Answer a request."""
        path = scope["path"]
        found = self._found(scope["method"], path) if len(path) <= _LONGEST_PATH else None
        if found is None:
            return self._searched(scope, receive, send)
        route, scope["path_params"] = found
        return route.app(scope, receive, send)

    def _find(self, verb: str, path: str) -> tuple[Route, Mapping[str, Any]] | None:
        """Find the route of a path and the names in it; None where none fits."""
        scope = {"type": "http", "method": verb, "path": path}
        for each in self._routes:
            match, found = each.matches(scope)
            if match is Match.FULL:
                return each, found["path_params"]
        return None

    async def _searched(self, scope: Any, receive: Any, send: Any) -> None:
        scope["app"] = self  # with one, starlette raises what it would answer itself
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            await self._no_route(scope["path"], error)(scope, receive, send)

    def _no_route(self, path: str, error: HTTPException) -> Response:
        """Answer a request whose path or verb is none of this server's, as its path tells errors."""
        headers = dict(error.headers or {})
        if error.status_code == 405:
            message = f"the path takes {headers.get('Allow', 'another method')}"
        else:
            message = "there is no such path; /docs and /openapi.json list those there are"
        code = grpc.StatusCode.UNIMPLEMENTED if error.status_code == 405 else grpc.StatusCode.NOT_FOUND
        failure = Failure(error.status_code, code, message, [])
        return Response(orjson.dumps(self._failed(path, failure)), error.status_code, headers, JSON)


class _Server(uvicorn.Server):
    """uvicorn's server, with this process's own signals and TLS.

    connections: at the same time. listens: set once it does.
    """

    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None, connections: int) -> None:
        super().__init__(config)
        self._tls = tls
        self._most = connections
        self.listens = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to this process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on sockets."""
        loop = asyncio.get_running_loop()
        handshake = None if self._tls is None else _HANDSHAKE
        self.servers = [
            await loop.create_server(
                self._connection, sock=each, ssl=self._tls, ssl_handshake_timeout=handshake, backlog=_BACKLOG
            )
            for each in sockets or ()
        ]
        self.started = True
        self.listens.set()

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, {"connections": self._most})


def _listener(host: str, port: int, *, shared: bool) -> socket.socket:
    """Bind a socket. Raises: LimelightError where the address is taken."""
    if not shared:
        check_free(host, port)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(place)
        listener.listen(_BACKLOG)
    except OSError as error:
        raise LimelightError(f"cannot listen on {address_of(host, port)}: {error.strerror}") from error
    return listener


def _always(page: HttpResponse) -> _Page:
    headers = {**page.headers, "content-type": page.media_type}  # as it is: Starlette adds a character set to texts

    async def answer(_: Request) -> Response:
        return Response(b"".join(map(bytes, page.parts)), page.status, headers)

    return answer


def _ready(is_ready: Callable[[], bool]) -> _Page:
    async def answer(_: Request) -> Response:
        if is_ready():
            return Response(b'{"status":"ready"}', media_type=JSON)
        return Response(b'{"status":"not ready"}', 503, media_type=JSON)

    return answer


def _failed(methods: Sequence[HttpMethod]) -> Callable[[str, Failure], Any]:
    """Make the JSON of errors at paths: as the method of the very path tells them, else the protocol of the path."""
    own = {each.path: each.failed for each in methods}

    def failed(path: str, failure: Failure) -> Any:
        method = own.get(path)
        return body_at(path, failure) if method is None else method(failure)

    return failed


def _cross_origin(application: _Routed, origins: Sequence[str]) -> CORSMiddleware:
    return CORSMiddleware(
        application,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=["authorization", "content-type", TIMEOUT_HEADER, REQUEST_ID_KEY, *_OF_REQUESTS],
        expose_headers=[REQUEST_ID_KEY, "retry-after", JSON_LENGTH_HEADER, INFERENCE_LENGTH_HEADER],
    )
