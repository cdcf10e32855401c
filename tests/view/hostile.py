"""A server whose every string is markup, and whose maps are bad or missing."""

import json
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
_TOKENS = {"name": "tokens", "kind": "LABEL_KIND_TOKENS", "size": 2, "texts": [MARKUP, "b"]}
_FRAMES = {
    "name": "frames",
    "kind": "LABEL_KIND_FRAMES",
    "size": 3,
    "starts": [0, 500, 1000],
    "ends": [500, 1000, 1500],
}


def _tensor(shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"dataType": "DATA_TYPE_FLOAT32", "shape": shape, "data": data}


def _map(name: str, weights: dict[str, Any], **fields: Any) -> dict[str, Any]:
    labels = {"queryLabels": "tokens", "keyLabels": "tokens"}
    return {"name": name, "heads": [0], "normalised": True, **labels, "weights": weights, **fields}


GOOD = _tensor([1, 2, 2], [[[0.5, 0.5], [0.9, 0.1]]])
SAMPLES = {"samples": _tensor([4], [0.5, -0.5, 1, 0]), "sampleRate": 16000}
MAPS = {
    MARKUP: _map(MARKUP, GOOD),
    "short": _map("short", _tensor([1, 1, 2], [[[0.5, 0.5]]])),
    "nan": _map("nan", _tensor([1, 2, 2], [[[0.5, "NaN"], [0.9, 0.1]]])),
    "unlabelled": _map("unlabelled", GOOD, keyLabels="nothing"),
    "heard": _map("heard", _tensor([1, 2, 3], [[[0.1, 0.8, 0.1], [0.9, 0.1, 0.0]]]), keyLabels="frames"),
}


TOKEN_SEEN = threading.Event()
REQUESTS: list[Any] = []


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, dict[str, str]]]] = []
    requests: ClassVar[list[Any]] = REQUESTS

    def do_GET(self) -> None:
        good = {"model": {"name": "bad", "version": 1}, "state": "MODEL_STATE_READY", "isDefault": True}
        status = {**good, "title": MARKUP}
        failed = {"model": {"name": "failed", "version": 1}, "state": "MODEL_STATE_FAILED", "reason": MARKUP}
        described = [
            {"name": name, "heads": 1, "queryLabels": "tokens", "keyLabels": "tokens", "summary": MARKUP}
            for name in MAPS
        ]
        description = {
            "name": "bad", "summary": MARKUP, "maps": described,
            "inputs": [
                {"name": MARKUP, "kind": "INPUT_KIND_TEXT", "summary": MARKUP},
                {"name": "sound", "kind": "INPUT_KIND_AUDIO", "optional": True},
            ],
            "examples": [
                {"inputs": {MARKUP: {"text": MARKUP}}},
                {"inputs": {MARKUP: {"text": MARKUP}, "sound": {"audio": {"samples": SAMPLES}}}},
            ],
        }  # fmt: skip
        self._send({"models": [status, failed]} if self.path == "/v1/models" else {"description": description})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.path, dict(self.headers)))
        self.requests.append(request)
        if self.path.endswith(":generate"):
            self._stream()
            return
        names = [name for each in request["attention"].get("selections", []) for name in each["names"]]
        result = {"name": MARKUP, "classification": {"classes": [{"label": MARKUP, "probability": 0.75}]}}
        provenance = {"model": {"name": MARKUP}, "provider": MARKUP}
        prediction = {"results": [result], "labelSets": [_TOKENS, _FRAMES], "provenance": provenance}
        self._send({"results": [{"prediction": prediction, "maps": [MAPS[name] for name in names or MAPS]}]})

    def _stream(self) -> None:
        """Send a token, and the end once somebody has seen the token."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b'event: token\ndata: {"token": {"delta": "a"}}\n\n')
        TOKEN_SEEN.wait(20)
        self.wfile.write(b'event: end\ndata: {"end": {}}\n\n')

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _send(self, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def hostile(tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """Serve it: the address, and the paths and headers of the calls that it gets."""
    _Answers.seen.clear()
    REQUESTS.clear()
    with running(_Answers, tls=tls) as address:
        yield address, _Answers.seen


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # five, as usual, are fewer than the connections that a browser opens at once


@contextmanager
def running(
    handler: Callable[..., BaseHTTPRequestHandler], port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve on a thread for the length of a block: the address."""
    with _Server(("127.0.0.1", port), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def saying(answer: Callable[[str], Iterable[bytes]], port: int = 0) -> Iterator[str]:
    """Serve what a function says of a path, in pieces and without a length: the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):  # the client had enough
                for piece in answer(self.path):
                    self.wfile.write(piece)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with running(Handler, port) as address:
        yield address
