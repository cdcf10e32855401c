"""TLS on one side alone is said to be so, by every door of the client."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

import limelight
from limelight import cli
from tests.kit import bundles
from tests.kit.serving import Running, free_port, serving


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority's certificate, and a server's own with its key."""
    folder, authority = tmp_path_factory.mktemp("authority"), trustme.CA()
    own = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    own.private_key_pem.write_to_path(str(folder / "key.pem"))
    own.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    return folder


@pytest.fixture(scope="module", params=["TLS", "plain"])
def running(request: pytest.FixtureRequest, authority: Path, tmp_path_factory: Any) -> Iterator[tuple[Running, bool]]:
    """A server, and whether it speaks TLS."""
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    files = {"tls_cert": str(authority / "cert.pem"), "tls_key": str(authority / "key.pem")}
    spoken = request.param == "TLS"
    with serving(folder, http_port=free_port(), **(files if spoken else {})) as running:
        yield running, spoken


@pytest.mark.parametrize("kind", [limelight.Client, limelight.AsyncClient])
def test_a_program_is_told(running: tuple[Running, bool], authority: Path, kind: Any) -> None:
    server, spoken = running
    target = f"127.0.0.1:{server.server.port}"
    options = {} if spoken else {"ca": authority / "ca.pem"}

    async def ask() -> None:
        async with limelight.AsyncClient(target, **options, attempts=2) as client:
            await client.predict("tiny", "the cat")

    with pytest.raises(limelight.Unavailable) as told:
        if kind is limelight.AsyncClient:
            asyncio.run(ask())
        else:
            limelight.Client(target, **options, attempts=2).predict("tiny", "the cat")
    todo = "speaks TLS: give ca=FILE, or tls=True" if spoken else "does not speak TLS: leave out ca, cert and tls"
    assert str(told.value) == f"the server at {target} {todo}"


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "tiny", "the cat"],
        ["health"],
        ["bench", "tiny", "the cat", "-n", "1"],
        ["bench", "tiny", "the cat", "-n", "1", "--protocol", "oip"],
        ["bench", "tiny", "the cat", "-n", "1", "--protocol", "http"],
        ["view", "--no-browser"],
    ],
    ids=" ".join,
)
def test_a_person_is_told(
    running: tuple[Running, bool],
    authority: Path,
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, spoken = running
    monkeypatch.setattr("sys.stdin", io.StringIO())
    by_http = command[0] == "view" or command[-1] == "http"
    target = f"127.0.0.1:{server.server.http_port if by_http else server.server.port}"
    place = [target] if command[0] == "view" else ["--target", target]
    status = cli.main([*command, *place, *([] if spoken else ["--ca", str(authority / "ca.pem")])])
    todo = "speaks TLS: give --ca FILE, or --tls" if spoken else "does not speak TLS: leave out --ca, --cert and --tls"
    assert status == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"limelight: the server at {target} {todo}"


def test_where_nobody_listens_nothing_is_said_of_tls() -> None:
    with pytest.raises(limelight.Unavailable) as told:
        limelight.Client(f"127.0.0.1:{free_port()}", attempts=1).ready(timeout=5)
    assert "TLS" not in str(told.value)
