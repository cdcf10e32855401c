"""The expressions of the dashboard, the rules and the alerts, as their files have them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = DEPLOY / "grafana" / "limelight.json"
# An alert is a series compared with a number: the series is there all the time, the alert is not.
_COMPARED = re.compile(r"(?P<series>.+) [<>] (?P<number>-?[0-9.]+)", re.DOTALL)


@dataclass(frozen=True)
class Expression:
    """An expression of PromQL and where it stands."""

    place: str
    text: str


def panels() -> Iterator[Expression]:
    """Yield the queries of the dashboard's panels."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield Expression(f"panel {panel['title']}", target["expr"])


def rules(name: str) -> Iterator[dict[str, Any]]:
    """Yield the rules of a file."""
    for group in yaml.safe_load((PROMETHEUS / name).read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def recorded() -> Iterator[Expression]:
    """Yield the expressions of the recording rules."""
    for rule in rules("rules.yml"):
        yield Expression(f"rule {rule['record']}", rule["expr"])


def alerts() -> Iterator[Expression]:
    """Yield the series that the alerts compare."""
    for rule in rules("alerts.yml"):
        compared = _COMPARED.fullmatch(rule["expr"].strip())
        assert compared, f"{rule['alert']} does not compare a series with a number"
        yield Expression(f"alert {rule['alert']}", compared["series"])


def everything() -> list[Expression]:
    """List all of them."""
    return [*panels(), *recorded(), *alerts()]
