"""Writes what pages say of settings from `Settings` itself: `python -m tests.service.settings_table`.

The table of those that users set in docs/serving.md, group by group, and that of limits in SECURITY.md.
"""

import re
from dataclasses import Field
from pathlib import Path
from typing import Any

import tomli_w

from limelight_service.settings import public_settings

ROOT = Path(__file__).parents[2]
SETTINGS, LIMITS = ROOT / "docs" / "serving.md", ROOT / "SECURITY.md"
# What bounds something, by its name: a new limit is in the table without anybody thinking of it.
_LIMIT = re.compile(r"max_.*|.*_(rows|bytes|calls|seconds|instances|threads|connections|places)")


def with_settings(page: str) -> str:
    """Give the page with the table that the settings make."""
    rows = [f"| `{each.name}` | {_default(each)} | {_meaning(each)} |" for each in public_settings()]
    return _between(page, "settings", ["| setting | default | meaning |", "|---|---|---|", *rows])


def with_limits(page: str) -> str:
    """Give the page with the table that those settings make which bound something."""
    limits = [each for each in public_settings() if _LIMIT.fullmatch(each.name)]
    rows = [f"| `--{each.name.replace('_', '-')}` | {_default(each)} | {_meaning(each)} |" for each in limits]
    return _between(page, "limits", ["| flag | default | what it bounds |", "|---|---|---|", *rows])


def _default(each: Field[Any]) -> str:
    written = tomli_w.dumps({each.name: each.default}).partition(" = ")[2].strip()
    return f"`{written}`".replace('"', "") if each.default != "" else ""


def _meaning(each: Field[Any]) -> str:
    rule = each.metadata["rule"]
    choices = f" One of {', '.join(rule.choices)}." if rule.choices else ""
    return f"{rule.summary}{choices}"


def _between(page: str, name: str, lines: list[str]) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = page.split(begin)
    return before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]


if __name__ == "__main__":
    for path, made in ((SETTINGS, with_settings), (LIMITS, with_limits)):
        path.write_text(made(path.read_text(encoding="utf-8")), encoding="utf-8")
