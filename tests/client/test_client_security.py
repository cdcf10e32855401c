"""Proofs of a client, and secrets that it keeps."""

import asyncio
import traceback
from pathlib import Path
from typing import Any

import pytest

import limelight
from limelight import cli, transport
from limelight.security import Security, is_local
from tests.kit.forwarder import Forwarder

TOKEN = "limelight_very-secret"


@pytest.mark.parametrize("kind", [limelight.Client, limelight.AsyncClient])
def test_a_token_goes_with_every_call(kind: Any, server: Forwarder):
    async def ask() -> None:
        async with limelight.AsyncClient(server.target, token=TOKEN, metadata=[("x-other", "1")]) as client:
            await client.models()

    if kind is limelight.Client:
        with limelight.Client(server.target, token=TOKEN, metadata=[("x-other", "1")]) as client:
            client.predict("tiny", {"text": "hello"})
    else:
        asyncio.run(ask())
    assert server.metadata["authorization"] == f"Bearer {TOKEN}"
    assert server.metadata["x-other"] == "1"


@pytest.mark.parametrize("kind", [limelight.Client, limelight.AsyncClient])
def test_a_token_is_not_sent_unencrypted_to_another_machine_unless_told(kind: Any):
    for target in ("models.example:50051", "192.0.2.1:50051", "dns:///models.example:50051"):
        with pytest.raises(ValueError, match="unencrypted") as refused:
            kind(target, token=TOKEN)
        assert TOKEN not in "".join(traceback.format_exception(refused.value))
        kind(target, token=TOKEN, insecure=True)
        kind(target, token=TOKEN, tls=True)


LOCAL = (
    "127.0.0.1:50051 localhost:50051 localhost [::1]:50051 dns:///localhost:50051 ipv4:127.0.0.1:50051 "
    "unix:/run/limelight.sock"
)
REMOTE = (
    "127.0.0.1.example:50051 localhost.example:50051 0.0.0.0:50051 ipv4:127.0.0.1:1,192.0.2.1:2 "
    "dns://192.0.2.1/localhost:50051"
)


@pytest.mark.parametrize("target", [*LOCAL.split(), *REMOTE.split(), ""])
def test_this_machine_is_told_from_others(target: str):
    assert is_local(target) is (target in LOCAL.split())


@pytest.mark.parametrize("token", ["", "two words", "a\nb", "é", "limelight_abc\r\nx: y"])
def test_what_is_no_token_is_refused_without_being_told(token: str):
    with pytest.raises(ValueError, match="the token is invalid") as refused:
        limelight.Client(token=token)
    assert not token or token not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cert": "a.pem"}, "cert and key are needed together"),
        ({"tls": True, "credentials": Security(tls=True).credentials()}, "either credentials, or"),
    ],
)
def test_what_makes_no_sense_together_is_refused(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        limelight.Client(**options)


@pytest.mark.parametrize("kind", [limelight.Client, limelight.AsyncClient])
def test_a_file_that_is_not_there_is_named_at_once(kind: Any, tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"none\.pem"):
        kind(ca=tmp_path / "none.pem")


def test_no_representation_shows_a_secret():
    settings = transport.Settings(security=Security(token=TOKEN), metadata=(("authorization", TOKEN),))
    assert settings.call_metadata and TOKEN not in repr(settings) and TOKEN not in str(settings)


def test_the_command_line_takes_a_token_from_a_file_a_variable_or_a_flag(
    server: Forwarder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "token"
    file.write_text("of-a-file\n")

    def sent(*flags: str) -> object:
        server.metadata = {}
        assert cli.main(["predict", "tiny", "hello", "--target", server.target, *flags]) == 0
        return server.metadata.get("authorization")

    assert sent() is None
    monkeypatch.setenv("LIMELIGHT_TOKEN_FILE", str(file))
    assert sent() == "Bearer of-a-file"
    monkeypatch.setenv("LIMELIGHT_TOKEN", "of-a-variable")
    assert sent() == "Bearer of-a-variable"
    assert sent("--token-file", str(file)) == "Bearer of-a-file"
    assert sent("--token", "of-a-flag") == "Bearer of-a-flag"
    assert cli.main(["models", "--token", "a", "--token-file", str(file)]) == 2
    output, errors = capsys.readouterr()
    assert "of-a" not in output + errors


@pytest.mark.parametrize(
    "command", [("models",), ("predict", "m", "x"), ("attend", "m", "x"), ("generate", "m", "x"), ("bench", "m", "x")]
)
def test_every_command_keeps_a_token_from_unencrypted_connections(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert cli.main([*command, "--target", "192.0.2.1:1", "--token", TOKEN]) == 1
    output, errors = capsys.readouterr()
    assert "unencrypted" in errors and TOKEN not in output + errors
    assert len(errors.splitlines()) == 1


def test_help_does_not_show_the_token_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("LIMELIGHT_TOKEN", TOKEN)
    assert cli.main(["models", "--help"]) == 0
    output, errors = capsys.readouterr()
    assert "LIMELIGHT_TOKEN" in output and TOKEN not in output + errors
