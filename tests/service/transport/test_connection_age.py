"""A connection that has the age that the settings allow is closed in good order, and callers notice nothing."""

import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

import limelight
from tests.hostile.wire import SETTINGS, frame
from tests.kit import bundles
from tests.kit.serving import serving

AGE = 0.5
GOAWAY = 7
CALLER = {"text": "the cat"}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


def closed_after(address: str, seconds: float) -> float | None:
    """Seconds after which the server announces that it closes a connection; None where it does not in time."""
    host, port = address.rsplit(":", 1)
    started, data = time.monotonic(), b""
    with socket.create_connection((host, int(port)), timeout=0.1) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))
        while time.monotonic() < started + seconds:
            with suppress(TimeoutError):
                data += connection.recv(4096)
            while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3]):
                if data[3] == GOAWAY:
                    return time.monotonic() - started
                data = data[9 + int.from_bytes(data[:3]) :]
    return None


def test_an_old_connection_is_closed_and_no_call_fails(repository: Path) -> None:
    with serving(repository, max_connection_age_seconds=AGE) as running:
        with limelight.Client(running.server.address, attempts=1) as client:
            end = time.monotonic() + 4 * AGE
            while time.monotonic() < end:
                client.predict("tiny", CALLER)
        took = closed_after(running.server.address, 20 * AGE)
    assert took is not None and took > 0.8 * AGE


def test_a_stream_goes_on_on_an_old_connection(repository: Path) -> None:
    age = {"max_connection_age_seconds": AGE}
    with serving(repository, **age) as running, limelight.Client(running.server.address, attempts=1) as client:
        started = time.monotonic()
        for _ in client.generate("endless", CALLER):
            if time.monotonic() > started + 4 * AGE:
                break


def test_a_stream_on_an_old_connection_is_cut_where_there_is_a_grace(repository: Path) -> None:
    age = {"max_connection_age_seconds": AGE, "max_connection_age_grace_seconds": AGE}
    with serving(repository, **age) as running, limelight.Client(running.server.address, attempts=1) as client:
        started = time.monotonic()
        with pytest.raises(limelight.Unavailable):
            for _ in client.generate("endless", CALLER):
                assert time.monotonic() < started + 60


def test_connections_are_of_any_age_by_default(repository: Path) -> None:
    with serving(repository) as running:
        assert closed_after(running.server.address, 3 * AGE) is None
