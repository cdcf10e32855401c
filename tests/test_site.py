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
MOST = 300_000  # bytes of a page
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
    heavy = {each.parent.name for each in tmp_path.rglob("*.html") if each.stat().st_size > MOST}
    assert heavy <= {"python", "protocol"}  # references that are one page each
    scores = (tmp_path / "atlas" / "B4" / "index.html").read_text(encoding="utf-8")
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in scores and "$$" not in scores
    assert "<mfrac>" in scores and "atlas/B5" not in scores.partition("<main")[0]
    filters(tmp_path / "atlas" / "index.html")
    shutil.rmtree(tmp_path)


def filters(index: Path) -> None:
    """Filter the atlas as somebody does who opened it from a disk."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        return
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(index.as_uri())
        count, rows = page.locator("#atlas-filter output"), page.locator("tbody tr:visible")
        whole = rows.count()
        assert count.text_content() == f"{whole} of {whole}"
        page.locator("#atlas-filter label", has_text="alignment").locator("select").select_option("sparsemax")
        assert {"C7"} <= set(rows.locator("td:first-child").all_text_contents()) and rows.count() < whole
        page.locator("#atlas-filter input").fill("no such name")
        assert count.text_content() == f"0 of {whole}"
        page.locator("#atlas-filter input").fill("c7")
        page.locator("tbody tr:visible a").first.click()
        assert page.locator("h1").text_content().startswith("C7: sparsemax")
        browser.close()


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
