"""The documentation: the site builds without a broken link, and messages that it explains are those of the code."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("bundle", "client/limelight", "export", "service")
# Messages of other programs than ours, marked so on the page.
THEIRS = "(gRPC)"


def test_the_site_builds_and_has_every_page(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="the site's packages are not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=quiet())
    assert built.returncode == 0, built.stdout + built.stderr
    assert not [*tmp_path.rglob("__pycache__"), *tmp_path.rglob("*.py[co]")]
    client = (tmp_path / "reference" / "python" / "index.html").read_text(encoding="utf-8")
    assert 'id="limelight.client.Client.attend"' in client
    assert "limelight attend" in (tmp_path / "reference" / "commands" / "index.html").read_text(encoding="utf-8")
    assert "AttendRequest" in (tmp_path / "reference" / "protocol" / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        assert (tmp_path / place / "index.html").exists() or place.name == "index", page
    shutil.rmtree(tmp_path)


def test_messages_that_are_explained_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    explained = [each for each in re.findall(r"^\| (`.*?`[^|]*) \|", page, re.MULTILINE) if THEIRS not in each]
    assert len(explained) > 15
    # Texts may be cut into several literals, of which some have braces of f-strings: words alone are compared.
    code = " ".join(
        re.sub(r"\"\s*\n\s*f?\"", "", path.read_text(encoding="utf-8"))
        for folder in SOURCES
        for path in sorted((ROOT / folder).rglob("*.py"))
    )
    for message in explained:
        for part in message.strip("`").split("…"):
            assert part.strip(" `:;,") in code, message


def quiet() -> dict[str, str]:
    """The environment of `make`, in which the theme says nothing of other versions of its own."""
    return {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": ""}
