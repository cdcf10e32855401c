"""The command line in this process, and a picture to send."""

import io
import sys
from pathlib import Path

import pytest
from PIL import Image

from limelight import cli
from tests.client.command.people import Run
from tests.client.served import PICTURE
from tests.kit.forwarder import Forwarder


@pytest.fixture
def server(server: Forwarder, monkeypatch: pytest.MonkeyPatch) -> Forwarder:
    """The server that every command finds."""
    monkeypatch.setenv("LIMELIGHT_TARGET", server.target)
    return server


@pytest.fixture
def run(server: Forwarder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in this process: exit status, output, errors."""

    def run(*arguments: object, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        status = cli.main([str(argument) for argument in arguments])
        output, errors = capsys.readouterr()
        return status, output, errors

    return run


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.fromarray(PICTURE).save(tmp_path / "digit.png")
    return tmp_path / "digit.png"
