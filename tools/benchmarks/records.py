"""Records of measurements: JSON, compressed by xz, each with the machine and the commit that it is from."""

import contextlib
import json
import lzma
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.awake import AWAKE

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "tools" / "benchmarks" / "results"
_TRIED = ROOT / "build" / "benchmarks-results"
# Text has no words of several bytes at even places, which xz expects.
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]
_DIGITS = 5  # significant ones that a number is kept with: nothing is measured more exactly


def compressed(text: bytes) -> bytes:
    """Compress text by xz, as small as it can."""
    return lzma.compress(text, filters=_FILTERS)


def read(file: Path) -> Any:
    """Read a record."""
    with lzma.open(file, "rt", encoding="utf-8") as content:
        return json.load(content)


def write(file: Path, content: Any) -> None:
    """Write a record, numbers with five significant digits; the same content gives the same bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    data = json.dumps(_rounded(content), ensure_ascii=False).encode()
    file.write_bytes(compressed(data))


def _rounded(content: Any) -> Any:
    match content:
        case float():
            return float(f"{content:.{_DIGITS}g}")
        case dict():
            return {name: _rounded(value) for name, value in content.items()}
        case list() | tuple():
            return [_rounded(each) for each in content]
        case _:
            return content


def place(name: str, *, keep: bool, folder: Path = RESULTS) -> Path:
    """Give the file of a record: in `folder` with `keep`, else below build/."""
    return (folder if keep else _TRIED) / f"{name}.json.xz"


def origin() -> dict[str, Any]:
    """Describe the machine and the commit of a measurement."""
    cores = len(os.sched_getaffinity(0))
    awake = " (kept awake)" if AWAKE in os.environ else ""
    commit = ""
    if shutil.which("git"):
        command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "machine": f"{cores} cores{awake}, Python {platform.python_version()}, ONNX Runtime {_runtime()}",
        "commit": commit,
    }


def _runtime() -> str:
    for name in ("onnxruntime", "onnxruntime-gpu"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return "none"


def save(name: str, rows: Sequence[Any], *, keep: bool, settings: Mapping[str, float] | None = None) -> None:
    """Write the rows of a benchmark, dataclasses, with their origin."""
    record = {**origin(), "settings": dict(settings or {}), "rows": [asdict(each) for each in rows]}
    write(place(name, keep=keep), record)
