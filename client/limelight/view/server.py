"""The local server of the page: its files, and calls that are passed on.

A page of another origin can neither read answers nor make calls: a `Host` with a foreign name is refused (DNS
rebinding), and so is another `Origin`. Where calls carry rights of a person, they also need a key that only the printed
address has, since other users of this machine reach the port as well.
"""

import http.client
import ipaddress
import json
import re
import secrets
import select
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, MSG_PEEK, SHUT_WR
from typing import Any

from limelight.view.files import page_files
from limelight.view.heads import Heads
from limelight.view.refusals import RefusedError
from limelight.view.upstream import MOST_BYTES, Upstream

KEY_HEADER = "X-Limelight-Key"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_MODEL = r"/v1/models/[a-z0-9][a-z0-9_-]{0,63}(?:/versions/[0-9]{1,10})?"
_CALLS = {
    "GET": re.compile(rf"/v1/models|{_MODEL}"),
    "POST": re.compile(rf"{_MODEL}:(?:predict|attend|attendStream|generate|explain)"),
}
# Heads of long inputs, which the page's own server keeps: a GET with a window, a POST to keep one.
_WINDOW = re.compile(
    r"/heads/([0-9a-f]{64})\?rows=(\d{1,9})-(\d{1,9})&columns=(\d{1,9})-(\d{1,9})&most=(\d{1,9})x(\d{1,9})"
)
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@]+)(?::\d{1,5})?")
# Headers that are passed on; others are between two neighbours only.
_SENT = ("Accept", "Content-Type", "X-Request-Timeout")
_RETURNED = ("Content-Type", "Content-Length", "Limelight-Json-Length", "Retry-After", "X-Request-Id")
_LARGEST_BODY, _DIGITS = 64 * 2**20, 10
_ALL_BODIES = 128 * 2**20  # that are read or passed on at the same time
_CONNECTIONS = 128
_PIECE = 2**16
_IDLE_SECONDS = 60.0


class PageServer(ThreadingHTTPServer):
    """Serves the page on a port, with `serve_forever`.

    Args:
        host: an address or a name of this machine.
        port: 0 for any free one.
    Raises:
        OSError: the port is taken, or the host is not this machine.
    """

    daemon_threads = True
    request_queue_size = _CONNECTIONS

    def __init__(self, upstream: Upstream, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.address_family = AF_INET6 if ":" in host else AF_INET
        super().__init__((host, port), _Handler)
        self.upstream = upstream
        self.room = _Room()
        self._places = threading.Semaphore(_CONNECTIONS)
        self.heads = Heads(upstream)
        self.host = host.lower()
        self.key = secrets.token_urlsafe(16) if upstream.has_identity or not _is_loopback(host) else ""

    @property
    def address(self) -> str:
        """The page's address, with its key if it has one."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        key = f"#key={self.key}" if self.key else ""
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/{key}"

    def server_bind(self) -> None:
        """Bind without the look-up of a name that the base class makes."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection on a thread of its own; one too many is closed."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless it is a browser that left."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Room:
    """The memory for the bodies of all requests."""

    def __init__(self) -> None:
        self._left = _ALL_BODIES
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Hold room for a body. Raises RefusedError: there is none."""
        with self._lock:
            if size > self._left:
                raise RefusedError(503, "RESOURCE_EXHAUSTED", "other large requests are under way: try again")
            self._left -= size
        try:
            yield
        finally:
            with self._lock:
                self._left += size


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "limelight", ""
    timeout = _IDLE_SECONDS
    server: PageServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the server has a log of calls."""

    def _answer(self) -> None:
        """Answer a request. Its body is read once nothing but the body can be wrong with it."""
        unread = 0
        try:
            length = unread = self._length()
            self._check_host()
            answer = self._answerer()
            # Small bodies are bounded by the number of connections.
            with self.server.room.taken(length if length > _PIECE else 0):
                body, unread = self.rfile.read(length), 0
                answer(body)
        except ConnectionAbortedError:
            self.close_connection = True
        except RefusedError as error:
            if unread <= _PIECE:
                self.rfile.read(unread)  # the connection goes on to the next request
            else:
                self.close_connection = True
            told = {"code": error.status, "status": error.name, "message": str(error)}
            self._send(error.status, "application/json", json.dumps({"error": told}).encode())
            if unread > _PIECE:
                self._let_go()

    def _length(self) -> int:
        """Return the length of the body."""
        stated, *others = self.headers.get_all("Content-Length", ["0"])
        is_valid = stated.isascii() and stated.isdecimal() and len(stated) <= _DIGITS and not others
        if not is_valid or "Transfer-Encoding" in self.headers or int(stated) > _LARGEST_BODY:
            self.close_connection = True
            raise RefusedError(
                413, "RESOURCE_EXHAUSTED", f"a request states its length, of at most {_LARGEST_BODY} bytes"
            )
        return int(stated)

    def _answerer(self) -> Callable[[bytes], None]:
        """Return the function that answers, given the body."""
        if _CALLS[self.command].fullmatch(self.path):
            self._check_caller()
            return self._pass_on
        if (self.command, self.path) == ("POST", "/heads"):
            self._check_caller()
            return self._keep_head
        if self.command == "GET" and (window := _WINDOW.fullmatch(self.path)):
            self._check_caller()
            return lambda _: self._send_window(window)
        file = page_files().get(self.path.partition("?")[0])
        if self.command != "GET" or file is None:
            raise RefusedError(404, "NOT_FOUND", "there is nothing at this path")
        return lambda _: self._send(200, *file)

    def _let_go(self) -> None:
        """Take a little of what still comes, for a moment: an answer is lost where a connection is closed before."""
        left = _PIECE * 16
        with suppress(OSError):
            self.connection.shutdown(SHUT_WR)
            self.connection.settimeout(1.0)
            while left > 0 and (piece := self.connection.recv(_PIECE)):
                left -= len(piece)

    def _check_host(self) -> None:
        found = _HOST.fullmatch(self.headers.get("Host", "").lower())
        name = found[1].strip("[]") if found else ""
        with suppress(ValueError):
            ipaddress.ip_address(name)
            return  # a number is no name that somebody else can point here
        if name not in ("localhost", self.server.host):
            raise RefusedError(403, "PERMISSION_DENIED", "this name is not one of the page's: use its printed address")

    def _check_caller(self) -> None:
        host = self.headers.get("Host", "")
        is_own = self.headers.get("Origin") in (None, f"http://{host}", f"https://{host}")
        if not is_own or self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise RefusedError(403, "PERMISSION_DENIED", "calls from pages of other origins are refused")
        if self.command == "POST" and self.headers.get_content_type() != "application/json":
            raise RefusedError(415, "INVALID_ARGUMENT", "a call has the media type application/json")
        key = self.server.key.encode()
        if key and not secrets.compare_digest(self.headers.get(KEY_HEADER, "").encode(), key):
            raise RefusedError(403, "PERMISSION_DENIED", "the key is wrong: open the address that was printed")

    def _keep_head(self, body: bytes) -> None:
        """Stream a head from the server, and tell its name."""
        try:
            wanted = json.loads(body)
            model, request = str(wanted["model"]), wanted["request"]
        except (ValueError, KeyError, TypeError, RecursionError):
            model, request = "", None
        if not re.fullmatch(_MODEL, model):
            raise RefusedError(400, "INVALID_ARGUMENT", "a head is asked for with the path of its model and a request")
        name, head = self.server.heads.keep(model, request, self._has_left)
        told = {"name": name, "shape": head.values.shape, "largest": head.largest}
        self._send(200, "application/json", json.dumps(told).encode())

    def _has_left(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, MSG_PEEK)

    def _send_window(self, window: re.Match[str]) -> None:
        first, end, left, right, rows, columns = map(int, window.groups()[1:])
        found = self.server.heads.get(window[1]).window((first, end), (left, right), (rows, columns))
        self._send(200, "application/octet-stream", found.tobytes())

    def _pass_on(self, body: bytes) -> None:
        """Send a call on, and its answer back as it arrives."""
        upstream = self.server.upstream
        sent = {name: self.headers[name] for name in _SENT if name in self.headers}
        connection = upstream.connect()
        try:
            try:
                connection.request(self.command, self.path, body or None, {**sent, **upstream.headers})
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
                message = f"no server answers at {upstream.address} ({reason})"
                raise RefusedError(502, "UNAVAILABLE", message) from error
            headers = {name: " ".join(response.headers[name].split()) for name in _RETURNED if name in response.headers}
            if "Content-Length" not in headers:  # a stream ends with its connection
                headers["Connection"] = "close"
            self._begin(response.status, headers)
            left = MOST_BYTES
            try:
                while left > 0 and (piece := response.read1(_PIECE)):
                    self.wfile.write(piece)
                    left -= len(piece)
                if left <= 0:
                    self.close_connection = True
            except (OSError, http.client.HTTPException):
                self.close_connection = True  # all that can be told of an answer that broke off
        finally:
            connection.close()

    def _send(self, status: int, media_type: str, content: bytes) -> None:
        self._begin(status, {"Content-Type": media_type, "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
