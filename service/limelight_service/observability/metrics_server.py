"""The port of the metrics: text or OpenMetrics under /metrics, as the scraper asks for."""

import contextlib
import gzip
import logging
import socket
import sys
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.exposition import choose_encoder

from limelight_bundle.errors import LimelightError
from limelight_service.observability.counters import Snapshot
from limelight_service.observability.exposition import SnapshotCollector
from limelight_service.platform.addresses import is_foreign, is_loopback
from limelight_service.platform.descriptors import room_for_scrapers
from limelight_service.platform.negotiation import chosen, takes_coding
from limelight_service.platform.threads import background

logger = logging.getLogger(__name__)

_FORMATS = "text/plain", "application/openmetrics-text"
_POLL_SECONDS = 0.1  # between looks whether to stop
_TO_ASK = 0.15  # seconds that a connection has to ask, however many others arrive


class MetricsServer:
    """Serves the metrics of all processes, on threads of its own.

    Args:
        host: address to listen on.
        port: port to listen on; 0 for any free one, which `port` then has.
        collect: asks every process for a snapshot; called at each scrape on the scrape's thread, by one at a time.

    Raises: LimelightError where the address cannot be listened on.
    """

    def __init__(self, host: str, port: int, collect: Callable[[], Sequence[Snapshot]]) -> None:
        try:
            family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._server = _Server(family, address, SnapshotCollector(collect))
            self._server.names, self._server.is_local = (host.lower(),), is_loopback(host)
        except (OSError, OverflowError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "the address cannot be used"
            raise LimelightError(f"metrics cannot be served on {host}:{port}: {reason}") from error
        self.port: int = self._server.server_address[1]
        self._thread = background(lambda: self._server.serve_forever(_POLL_SECONDS), "metrics")
        self._thread.start()

    def stop(self) -> None:
        """Close the port; a page that is being written is finished first, and no other begins."""
        self._server.shutdown()
        self._thread.join()
        self._server.close()


class _Handler(BaseHTTPRequestHandler):
    """Answers one request a connection."""

    timeout = 10.0  # seconds for each read, and for the whole answer
    server: "_Server"

    def do_GET(self) -> None:
        """Answer with the page."""
        if urlsplit(self.path).path != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, explain="Metrics are under /metrics.")
            return
        if self.server.is_local and is_foreign(self.headers.get("Host", ""), self.server.names):
            self.send_error(HTTPStatus.FORBIDDEN, explain="This is no name of the server.")
            return
        if not self.server.begin_answer(self.connection):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        found = chosen(self._field("Accept"), _FORMATS)
        asked = "" if found is None else found.name if "*" in found.text else found.text.lower()
        encode, content_type = choose_encoder(asked)
        try:
            with self.server.page_lock:
                body = b"" if self.server.is_stopped else encode(self.server.collector)
        except Exception as error:
            logger.error("the metrics cannot be collected", exc_info=error)
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain="The server's log has the reason.")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        if takes_coding(self._field("Accept-Encoding"), "gzip"):
            body = gzip.compress(body, compresslevel=1)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _field(self, name: str) -> str:
        return ",".join(self.headers.get_all(name, ()))

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Refuse a method that would change something."""
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    do_PUT = do_DELETE = do_PATCH = do_POST

    def log_message(self, *_: Any) -> None:
        """Log nothing: scrapes are frequent."""


class _Server(ThreadingMixIn, TCPServer):
    """Listens, with a thread a connection.

    Half of `room_for_scrapers` may be silent: the oldest of them is closed for a new one, so that they keep no scraper
    out. The other half may be answered at the same time.
    """

    names: Sequence[str] = ()  # of its host
    is_local = False  # reached by this machine alone, and so by pages in its browsers
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, family: int, address: Any, collector: SnapshotCollector) -> None:
        self.address_family = family
        self.collector = collector
        self.page_lock = Lock()
        self.is_stopped = False
        self._most = max(1, room_for_scrapers() // 2)
        self._lock = Lock()
        self._silent_since: dict[socket.socket, float] = {}  # oldest first
        self._answered: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def begin_answer(self, connection: socket.socket) -> bool:
        """Note that a connection has asked; False where too many are being answered, or it was closed meanwhile."""
        with self._lock:
            is_open = self._silent_since.pop(connection, None) is not None
            has_room = is_open and len(self._answered) < self._most
            if has_room:
                self._answered.add(connection)
        return has_room

    def service_actions(self) -> None:
        """Look at the metrics, where no scraper has done so for a while."""
        if self.page_lock.acquire(blocking=False):
            try:
                self.collector.look()
            except Exception as error:
                logger.debug("the metrics cannot be collected", exc_info=error)  # the next scrape says so
            finally:
                self.page_lock.release()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection on a thread, once there is room for it."""
        while (seconds := self._make_room()) > 0:
            time.sleep(seconds)
        with self._lock:
            self._silent_since[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that has ended."""
        with self._lock:
            self._silent_since.pop(request, None)
            self._answered.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failure, unless it is a scraper that went away."""
        error = sys.exception()
        if not isinstance(error, OSError):
            logger.error("a scrape failed", exc_info=error)

    def close(self) -> None:
        """Close the port and every connection."""
        self.server_close()
        with self.page_lock:
            self.is_stopped = True
        with self._lock:
            for each in (*self._silent_since, *self._answered):
                _hang_up(each)

    def _make_room(self) -> float:
        """Close a silent connection where there are too many; gives the seconds until one has had the time to ask."""
        with self._lock:
            if len(self._silent_since) < self._most:
                return 0.0
            oldest, since = next(iter(self._silent_since.items()))
            left = since + _TO_ASK - time.monotonic()
            if left <= 0:
                del self._silent_since[oldest]
                _hang_up(oldest)
            return left


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)
