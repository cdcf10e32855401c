"""Hooks of the documentation's site: links that leave docs/, formulas, the list of decisions, and pages made from code.

Formulas, between dollars in the atlas, become MathML; links to pages name their files, so that the site can be opened
from a disk.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

import limelight

_DOCS = Path(__file__).parent
_FIRST = ("limelight.client", "limelight.aio", "limelight.requests", "limelight.attended", "limelight.maps")
_ATLAS = "atlas/"
_DISPLAYED = re.compile(r"^\$\$\n(.+?)\n\$\$$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<![\\$\w`])\$([^$\n]+)\$(?![\w$])")
_NAME = re.compile(r"<mo>([A-Za-z]{2,})</mo>")  # a function's, which is no operator with room on both sides
_FOLDER = re.compile(r'(href="(?![a-z]+:|/)(?:[^"#?]*/)?)(#[^"]*)?"')
_LINK = re.compile(r"\[([^\]\[]*)\]\((\.\.?/[^)\s]*)\)")


def on_config(config: Any) -> Any:
    """Add every decision to the menu."""
    decisions = sorted(path.relative_to(_DOCS).as_posix() for path in (_DOCS / "decisions").glob("*.md"))
    config.nav.append({"Decisions": decisions})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of commands and of the Python client."""
    files.append(File.generated(config, "reference/commands.md", content=_commands()))
    files.append(File.generated(config, "reference/python.md", content=_client()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Name files outside docs/ in place of linking to them, unless the site says where the repository is."""
    folder = (_DOCS / page.file.src_uri).parent

    def rewritten(link: re.Match[str]) -> str:
        text, address = link.groups()
        path = Path(os.path.normpath(folder / address.partition("#")[0]))
        if path.is_relative_to(_DOCS):
            return link[0]
        place = path.relative_to(_DOCS.parent).as_posix()
        if not path.exists():
            raise ValueError(f"{page.file.src_uri} links to {place}, which does not exist")
        return f"[{text}]({config.repo_url}/blob/main/{place})" if config.repo_url else f"{text} (`{place}`)"

    if page.file.src_uri.startswith(_ATLAS):
        if page.file.name == "index":
            page.meta["hide"] = ["toc"]  # its table is wide
        markdown = _DISPLAYED.sub(lambda each: f'<div class="formula">{_mathml(each[1], "block")}</div>', markdown)
        markdown = _INLINE.sub(lambda each: _mathml(each[1], "inline"), markdown)
    return _LINK.sub(rewritten, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Name the file in links to folders."""
    return _FOLDER.sub(
        lambda each: f'{each[1]}index.html{each[2] or ""}"' if each[1].endswith("/") else each[0], output
    )


def _mathml(tex: str, display: str) -> str:
    return _NAME.sub(r"<mi>\1</mi>", convert(tex, display=display))


def _commands() -> str:
    """Write the page of commands."""
    found = re.findall(r"^  ([a-z]+)  ", _help(), re.MULTILINE)
    parts = ["# Commands", "", "What `limelight COMMAND --help` prints, of every command.", ""]
    with ThreadPoolExecutor() as pool:
        for name, text in zip(found, pool.map(_help, found), strict=True):
            parts += [f"## limelight {name}", "", "```text", text.strip(), "```", ""]
    return "\n".join(parts)


def _client() -> str:
    """Write the page of the Python client: each public name below the module that defines it."""
    parts = ["# Python client", ""]
    parts += [
        "`import limelight` has all of these names: `limelight.Client`. [Calling](../calling.md) shows them at work.",
        "",
    ]
    modules: dict[str, list[str]] = {}
    for name in limelight.__all__:
        modules.setdefault(getattr(limelight, name).__module__, []).append(name)
    for module in sorted(modules, key=lambda each: (_FIRST.index(each) if each in _FIRST else len(_FIRST), each)):
        parts += [f"::: {module}", "    options:", f"      members: {modules[module]}", ""]
    return "\n".join(parts)


def _help(*command: str) -> str:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    arguments = [sys.executable, "-m", "limelight.cli", *command, "--help"]
    return subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment).stdout
