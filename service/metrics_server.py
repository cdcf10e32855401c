"""The port that metrics are served on: a page over HTTP, with nothing that a scraper could hold on to."""

import asyncio
import logging
import socket
import zlib
from collections.abc import Callable

from bundle.errors import LimelightError
from service.descriptors import room_for_scrapers
from service.threads import background

logger = logging.getLogger(__name__)

_LONGEST_REQUEST = 8 * 1024
_PATIENCE = 10.0  # seconds from connection to the end of the answer
_BACKLOG = 64
_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_GZIP = 16 + zlib.MAX_WBITS


class MetricsServer:
    """Serves a page under /metrics, on a thread with an event loop of its own.

    A connection is one request, for `_PATIENCE` seconds at most; where there are more than `room_for_scrapers`, the
    oldest makes room, so that those who say nothing keep nobody out.
    page: writes what is served; on that thread, for each request.
    Raises: LimelightError where it cannot listen there.
    """

    def __init__(self, page: Callable[[], bytes], host: str, port: int) -> None:
        self._page = page
        self._most = room_for_scrapers()
        try:
            family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server(place, family=family, backlog=_BACKLOG)
        except (OSError, OverflowError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "the address cannot be used"
            raise LimelightError(f"metrics cannot be served on {host}:{port}: {reason}") from error
        self.port: int = self._socket.getsockname()[1]
        self._open: dict[asyncio.StreamWriter, None] = {}  # oldest first
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = background(self._run, "metrics")
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._socket, limit=_LONGEST_REQUEST)
        await self._stopped.wait()
        server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        writer.transport.set_write_buffer_limits(0)  # what is drained has left
        try:
            async with asyncio.timeout(_PATIENCE):
                writer.write(self._response(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (TimeoutError, EOFError, asyncio.LimitOverrunError, OSError):
            writer.transport.abort()
        else:
            writer.close()
        finally:
            self._open.pop(writer, None)

    def _response(self, request: bytes) -> bytes:
        first, *fields = request.decode("latin-1").split("\r\n")
        method, target = (*first.split(" "), "", "")[:2]
        if method not in ("GET", "HEAD"):
            return _message("405 Method Not Allowed", b"use GET\n", "Allow: GET, HEAD")
        if target.partition("?")[0] != "/metrics":
            return _message("404 Not Found", b"metrics are under /metrics\n")
        try:
            body = self._page()
        except Exception as error:
            logger.error("the page of metrics cannot be written", exc_info=error)
            return _message("500 Internal Server Error", b"the server's log says why\n")
        more = []
        if any(field.lower().startswith("accept-encoding:") and "gzip" in field.lower() for field in fields):
            body, more = zlib.compress(body, level=1, wbits=_GZIP), ["Content-Encoding: gzip"]
        message = _message("200 OK", body, *more)
        return message if method == "GET" else message[: -len(body)]


def _message(status: str, body: bytes, *fields: str) -> bytes:
    head = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {_TYPE}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *fields,
    )
    return "\r\n".join((*head, "", "")).encode() + body
