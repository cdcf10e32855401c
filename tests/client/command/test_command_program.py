"""Commands that are printed work as pasted."""

import sys
from pathlib import Path

import pytest

from limelight.base.program import command_line, program


def test_a_program_on_the_path_is_its_name_and_another_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my bin"
    folder.mkdir()
    path = folder / "limelight"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert command_line("export", Path("a run"), "--version", 0) == "'my bin/limelight' export 'a run' --version 0"
    monkeypatch.chdir("/")
    assert program() == f"'{path.relative_to('/')}'"
    monkeypatch.setenv("PATH", str(folder))
    assert program() == "limelight"
    monkeypatch.setattr(sys, "argv", ["/some/where/pytest"])
    assert program() == "limelight"
