"""The file of results: JSON lines, compressed by xz and appended to, so that a study resumes where it stopped."""

import base64
import json
import lzma
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.records import compressed

FILE = Path(__file__).parents[1] / "records" / "mechanisms.jsonl.xz"
_TOGETHER = "right"  # the kind of a row with the right answers of all runs of a task


@dataclass
class Results:
    """Results so far, by kind (run, latency), configuration and seed."""

    file: Path = FILE
    rows: dict[tuple[str, str, int], dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.read()

    def read(self) -> None:
        """Read the file again: another process may have added to it."""
        if self.file.exists():
            for line in lzma.decompress(self.file.read_bytes()).decode().splitlines():
                row = json.loads(line)
                key = row["kind"], row["configuration"], row["seed"]
                if row["kind"] == _TOGETHER:
                    self._take_apart(row)
                    continue
                self.rows.pop(key, None)  # rows stay in the order in which they were added
                self.rows[key] = row

    def known(self, kind: str, configuration: str, seed: int = 0) -> bool:
        """True where there is a result."""
        return (kind, configuration, seed) in self.rows

    def row(self, kind: str, configuration: str, seed: int = 0) -> dict[str, Any] | None:
        """A result; None where there is none."""
        return self.rows.get((kind, configuration, seed))

    def add(self, kind: str, configuration: str, seed: int, **values: Any) -> None:
        """Append a result as a stream of its own, in one call, so that two processes may share the file."""
        row = {"kind": kind, "configuration": configuration, "seed": seed, **values}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, lzma.compress(_line(row)))
        finally:
            os.close(handle)
        self.rows.pop((kind, configuration, seed), None)
        self.rows[kind, configuration, seed] = row

    def pack(self) -> None:
        """Write the file again as one stream, which takes half of the space of many.

        Right answers are written example by example for all runs of a task: runs agree on examples more than examples
        of a run do.
        """
        self.read()
        rows = [{name: value for name, value in row.items() if name != "right"} for row in self.rows.values()]
        for (task, count), runs in _by_task(row for row in self.rows.values() if "right" in row).items():
            right = np.stack([unpacked(run["right"], count) for run in runs], axis=1)
            rows.append({"kind": _TOGETHER, "configuration": task, "seed": count, "right": packed(right.ravel())})
        self.file.write_bytes(compressed(b"".join(map(_line, rows))))

    def _take_apart(self, together: Mapping[str, Any]) -> None:
        """Give the runs of a task, which were read before, their right answers."""
        count = together["seed"]
        whole = (row for row in self.rows.values() if row["kind"] == "run" and "right" not in row)
        runs = _by_task(whole)[together["configuration"], count]
        right = unpacked(together["right"], count * len(runs)).reshape(count, len(runs))
        for run, answers in zip(runs, right.T, strict=True):
            run["right"] = packed(answers)

    def latest(self, task: str) -> str:
        """The fingerprint of the data that the task's latest run read; empty where there is none."""
        rows = [row for (kind, name, _), row in self.rows.items() if kind == "run" and name.startswith(f"{task} / ")]
        return str(rows[-1]["of"]) if rows else ""

    def of(self, kind: str, configuration: str) -> Iterator[dict[str, Any]]:
        """All seeds of one configuration."""
        return (row for (k, c, _), row in sorted(self.rows.items()) if (k, c) == (kind, configuration))


def _by_task(runs: Iterable[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Group runs by their task and its number of examples."""
    grouped: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for run in runs:
        grouped.setdefault((run["configuration"].partition(" / ")[0], run["examples"]), []).append(run)
    return grouped


def _line(row: dict[str, Any]) -> bytes:
    return (json.dumps(row, ensure_ascii=False) + "\n").encode()


def packed(right: np.ndarray) -> str:
    """Write right answers, bool [example], as text: eight a byte, in base64."""
    return base64.b64encode(np.packbits(right).tobytes()).decode()


def unpacked(text: str, count: int) -> np.ndarray:
    """Read so many again."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=count).astype(bool)
