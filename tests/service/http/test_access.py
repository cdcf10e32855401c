"""Access over HTTP, limits of a connection, and stops of the server: as over gRPC."""

import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from limelight.base import installing
from limelight_bundle.errors import LimelightError
from limelight_service.codecs.json import v1 as json_v1
from limelight_service.command import remedy
from limelight_service.frontend.http import connection as http_connection
from limelight_service.security.tokens import entry, new_token
from tests.hostile.test_access_tls import Files
from tests.kit import bundles
from tests.kit.serving import Running, eventually, free_port, serving
from tests.service.http.calls import answered, call, connected, place, texts, told

PREDICT, GOOD = "/v1/models/tiny:predict", texts("the cat")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of one model that answers and one that generates."""
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder)
    return folder


@contextmanager
def http_serving(repository: Path, **settings: Any) -> Iterator[Running]:
    with serving(repository, http_port=free_port(), **settings) as running:
        yield running


def test_calls_are_encrypted_by_the_servers_certificate_and_by_its_next(small: Path, tmp_path: Path) -> None:
    files, authority = Files(tmp_path), trustme.CA()
    files.write(authority)
    with http_serving(small, **files.settings) as running:

        def issuer() -> str:
            context = ssl.create_default_context(cafile=str(files.ca))
            secure = http.client.HTTPSConnection(*place(running), timeout=60, context=context)
            assert answered(secure, PREDICT, GOOD).status == 200
            shown = secure.sock.getpeercert(binary_form=True)
            secure.close()
            return str(hash(shown))

        first = issuer()
        assert first == issuer()
        with connected(running) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert not told(plain).startswith(b"HTTP/1.1 200")
        files.write(authority)
        assert eventually(lambda: issuer() != first)


def test_callers_show_certificates_where_grpc_asks_for_them(small: Path, tmp_path: Path) -> None:
    files, authority, callers, stranger = Files(tmp_path), trustme.CA(), trustme.CA(), trustme.CA()
    files.write(authority)
    files.callers_ca.write_bytes(callers.cert_pem.bytes())
    with http_serving(small, **files.settings, tls_client_ca=str(files.callers_ca)) as running:

        def tried(own: trustme.CA | None) -> int:
            context = ssl.create_default_context(cafile=str(files.ca))
            if own is not None:
                files.write_own(own)
                context.load_cert_chain(files.own_chain, files.own_key)
            secure = http.client.HTTPSConnection(*place(running), timeout=60, context=context)
            try:
                return answered(secure, PREDICT, GOOD).status
            finally:
                secure.close()

        assert tried(callers) == 200
        for own in (stranger, None):
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                tried(own)
        assert tried(callers) == 200


def test_connections_are_bounded_and_silent_ones_closed(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "_HEAD_SECONDS", 0.5)
    with http_serving(small, max_connections=3) as running:
        silent = [connected(running) for _ in range(3)]
        silent[0].sendall(b"GET /healthz HTTP/1.1\r\n")
        with connected(running) as one_too_many:
            assert _closed(one_too_many)
        started = time.monotonic()
        for each in silent:
            assert _closed(each)
            each.close()
        assert time.monotonic() - started < 10
        assert eventually(lambda: call(running, PREDICT, GOOD).status == 200)


@pytest.mark.parametrize("topology", [{}, {"frontends": 2}], ids=["one-process", "two-frontends"])
def test_a_slow_request_is_ended(small: Path, topology: dict[str, int]) -> None:
    with http_serving(small, arrival_seconds=2.0, **topology) as running:
        with connected(running) as connection:
            head = f"POST {PREDICT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            started = time.monotonic()
            connection.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
            assert 0.8 < time.monotonic() - started < 10
        assert eventually(lambda: call(running, PREDICT, GOOD).status == 200)


def test_a_reader_who_does_not_read_is_closed(small: Path) -> None:
    with http_serving(small, answer_seconds=0.5, max_instances=256) as running, connected(running) as connection:
        body = json.dumps(texts(*["the cat sat"] * 256, attention={})).encode()
        head = "POST /v1/models/tiny:attend HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with pytest.raises(OSError):
            for _ in range(400):  # more answers than any buffer on the way takes
                connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
                time.sleep(0.02)
        assert call(running, PREDICT, GOOD).status == 200


def test_a_stop_lets_calls_finish_and_does_not_wait_for_idle_connections(small: Path) -> None:
    with http_serving(small, grace_seconds=60.0) as running:
        kept = http.client.HTTPConnection(*place(running), timeout=60)
        assert answered(kept, PREDICT, GOOD).status == 200
        started = time.monotonic()
    assert time.monotonic() - started < 5
    kept.close()


def test_pages_of_named_origins_may_call(small: Path) -> None:
    origin = {"origin": "https://lime.example"}
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,authorization"}
    with http_serving(small, http_origins="https://lime.example, https://other.example") as running:
        answer = call(running, PREDICT, GOOD, headers=origin)
        assert answer.headers["access-control-allow-origin"] == "https://lime.example"
        assert call(running, PREDICT, headers=origin | asked, verb="OPTIONS").status == 200
        answer = call(running, PREDICT, headers={"origin": "https://evil.example"} | asked, verb="OPTIONS")
        assert answer.status == 403 and "access-control-allow-origin" not in answer.headers


def test_tokens_protect_and_not_names(small: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens.toml").write_text(entry("one", new_token(), {}))
    with http_serving(small, tokens=str(tmp_path / "tokens.toml")) as running:
        for path in ("/healthz", "/readyz"):
            assert call(running, path, headers={"host": "any.name"}).status == 200
        answer = call(running, PREDICT, b"{ none of this is read")
        assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"


@pytest.fixture(scope="module")
def explicit(small: Path) -> Iterator[Running]:
    """A server whose callers load and unload, and where pages of one origin may call."""
    with http_serving(small, model_control="explicit", http_origins="https://lime.example") as running:
        yield running


UNLOAD = "/v2/repository/models/tiny/unload"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (UNLOAD, {"origin": "https://evil.example"}, 403),
        (UNLOAD, {"origin": "null"}, 403),
        (UNLOAD, {"origin": "http://127.0.0.1:1"}, 403),  # another port is another origin
        (UNLOAD, {"origin": "https://lime.example.evil.example", "sec-fetch-site": "cross-site"}, 403),
        (UNLOAD, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        (UNLOAD, {"sec-fetch-site": "same-site"}, 403),
        ("/v1/models/tiny:predict", {"origin": "https://evil.example"}, 403),
        ("/v1/models", {"origin": "https://evil.example"}, 403),
        ("/v1/models", {"sec-fetch-site": "cross-site"}, 200),  # a page cannot read what it gets
        (
            "/v1/models",
            {"sec-fetch-site": "same-origin", "origin": "http://localhost:8080", "host": "localhost:8080"},
            200,
        ),
        ("/v1/models", {"sec-fetch-site": "none"}, 200),
        ("/v1/models/tiny:predict", {"origin": "https://lime.example", "sec-fetch-site": "cross-site"}, 200),
        ("/v1/models", {"host": "evil.example"}, 403),
        ("/v1/models", {"host": "127.0.0.1.evil.example:8080", "origin": "http://127.0.0.1.evil.example:8080"}, 403),
        ("/v1/models", {"host": "localhost.evil.example"}, 403),
        ("/v1/models", {"host": "evil.example."}, 403),
        ("/v1/models", {"host": "me@localhost"}, 403),
        *(
            ("/v1/models", {"host": host}, 200)
            for host in ("LOCALHOST:9", "a.localhost", "[::1]:80", "10.0.0.1", "box")
        ),
        ("/v1/models", {"host": "lime.example"}, 200),  # as a proxy on this machine passes it on
    ],
)
def test_pages_of_other_origins_can_do_nothing(
    explicit: Running, path: str, headers: dict[str, str], status: int
) -> None:
    body = None if path == "/v1/models" else b"" if path == UNLOAD else GOOD
    answer = call(explicit, path, body, headers=headers)
    assert answer.status == status
    if status == 403 and path.startswith("/v2"):
        assert answer.json["status"] == "PERMISSION_DENIED" and "may not call" in answer.json["error"]
    elif status == 403:
        assert answer.error["status"] == "PERMISSION_DENIED" and answer.headers["x-request-id"]
    assert call(explicit, "/v2/models/tiny/ready").status == 200


def test_a_body_that_is_not_there_needs_no_media_type(explicit: Running) -> None:
    assert call(explicit, UNLOAD, b"", headers={"content-type": "text/plain"}).status == 200
    answer = call(explicit, "/v2/repository/models/tiny/load", b"{}", headers={"content-type": "text/plain"})
    assert answer.status == 415 and "send application/json or application/octet-stream" in answer.json["error"]
    assert call(explicit, "/v2/repository/models/tiny/load", verb="POST").status == 200


def test_pages_can_send_and_read_every_header_that_is_described(explicit: Running) -> None:
    sent = "authorization content-type x-request-timeout x-request-id inference-header-content-length traceparent"
    asked = {"origin": "https://lime.example", "access-control-request-method": "POST"}
    asked["access-control-request-headers"] = f"{sent} tracestate".replace(" ", ", ")
    assert call(explicit, PREDICT, headers=asked, verb="OPTIONS").status == 200
    answer = call(explicit, PREDICT, GOOD, headers={"origin": "https://lime.example"})
    exposed = "x-request-id retry-after limelight-json-length inference-header-content-length"
    assert set(answer.headers["access-control-expose-headers"].split(", ")) == set(exposed.split())


def test_numbers_have_a_limit_of_their_own(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured before anything runs, and arrays as bytes are not counted against it."""
    monkeypatch.setattr(json_v1, "LARGEST", 200)
    attend, request = "/v1/models/tiny:attend", texts("the cat sat", attention={})
    with http_serving(small) as running:
        answer = call(running, attend, request)
        assert answer.status == 413 and "at most 200 are allowed" in answer.error["message"]
        assert call(running, attend, request, headers={"accept": "application/octet-stream"}).status == 200
        assert call(running, "/v1/models/tiny:attendStream", request).status == 413


def test_a_package_that_is_missing_is_named_with_the_extra() -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from limelight_service.supervisor.frontend import _http_server\n"
        "try: _http_server()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    needed = "LimelightError HTTP needs the package uvicorn, which is not installed: "
    assert told == f"{needed}{installing.extra('http')}\n"


def test_a_port_that_is_taken_is_named_with_its_flag(small: Path) -> None:
    with http_serving(small) as running:
        taken = running.server.http_port
        for frontends in (0, 1):
            settings = replace(running.server.settings, port=0, http_port=taken, frontends=frontends)
            with (
                pytest.raises(LimelightError, match=rf"cannot listen on 127\.0\.0\.1:{taken}: ") as refused,
                serving(small, port=0, http_port=taken, frontends=frontends),
            ):
                pass
            assert "--http-port" in remedy(refused.value, settings)


def _closed(connection: Any) -> bool:
    """Wait until the server closes a connection on which it answers nothing."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
