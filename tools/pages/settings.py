"""The tables of settings, from `Settings` itself.

The table of those that users set in docs/serving.md, group by group, and that of limits in SECURITY.md.
"""

import re
from dataclasses import Field
from typing import Any

import tomli_w

from benchmarks.records import ROOT
from benchmarks.tables import fill
from limelight_service.settings import public_settings

SETTINGS, LIMITS = ROOT / "docs" / "serving.md", ROOT / "SECURITY.md"
# What bounds something, by its name: a new limit is in the table without anybody thinking of it.
_LIMIT = re.compile(r"max_.*|.*_(rows|bytes|calls|seconds|instances|threads|connections|places)")


def settings() -> str:
    """Give the page of serving with the table that the settings make."""
    rows = [f"| `{each.name}` | {_default(each)} | {_meaning(each)} |" for each in public_settings()]
    lines = ["| setting | default | meaning |", "|---|---|---|", *rows]
    return fill(SETTINGS.read_text(encoding="utf-8"), {"settings": lines})


def limits() -> str:
    """Give the page of security with the table that those settings make which bound something."""
    bounds = [each for each in public_settings() if _LIMIT.fullmatch(each.name)]
    rows = [f"| `--{each.name.replace('_', '-')}` | {_default(each)} | {_meaning(each)} |" for each in bounds]
    lines = ["| flag | default | what it bounds |", "|---|---|---|", *rows]
    return fill(LIMITS.read_text(encoding="utf-8"), {"limits": lines})


def _default(each: Field[Any]) -> str:
    written = tomli_w.dumps({each.name: each.default}).partition(" = ")[2].strip()
    return f"`{written}`".replace('"', "") if each.default != "" else ""


def _meaning(each: Field[Any]) -> str:
    rule = each.metadata["rule"]
    choices = f" One of {', '.join(rule.choices)}." if rule.choices else ""
    return f"{rule.summary}{choices}"
