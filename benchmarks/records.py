"""Records of measurements: JSON, compressed by xz."""

import json
import lzma
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def read(file: Path) -> Any:
    """Read a record."""
    with lzma.open(file, "rt", encoding="utf-8") as content:
        return json.load(content)


def write(file: Path, content: Any) -> None:
    """Write a record; the same content gives the same bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(json.dumps(content, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))
