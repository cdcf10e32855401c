"""Figures as files: what is kept with the project, what was only tried, and the machine that they are from."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.awake import AWAKE
from benchmarks.process import ROOT, cores

KEPT = ROOT / "benchmarks" / "results"
_TRIED = ROOT / "build" / "benchmarks-results"
_Row = TypeVar("_Row")


def machine() -> str:
    """What was measured on."""
    runtime = metadata.version("onnxruntime")
    awake = " (kept awake)" if AWAKE in os.environ else ""
    return f"{cores()} cores{awake}, Python {platform.python_version()}, ONNX Runtime {runtime}"


def place(name: str, *, keep: bool) -> Path:
    """Where a benchmark's figures go."""
    folder = KEPT if keep else _TRIED
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.json"


def write(file: Path, content: dict[str, Any]) -> None:
    """Write figures, a row a line."""
    parts = []
    for name, value in content.items():
        said = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value:
            said = "[\n  " + ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in value) + "\n ]"
        parts.append(f" {json.dumps(name)}: {said}")
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def save(name: str, rows: Sequence[Any], *, keep: bool) -> None:
    """Save rows with the machine that they are from; with `keep` the page of docs/ is written too."""
    write(place(name, keep=keep), {"machine": machine(), "rows": [asdict(each) for each in rows]})
    if keep:
        from benchmarks.performance_page import write_page

        write_page()


def load(name: str, row: type[_Row]) -> tuple[str, list[_Row]]:
    """Read what was kept: the machine and the rows; no rows where nothing was."""
    file = KEPT / f"{name}.json"
    if not file.exists():
        return "", []
    content = json.loads(file.read_text(encoding="utf-8"))
    return content["machine"], [row(**each) for each in content["rows"]]
