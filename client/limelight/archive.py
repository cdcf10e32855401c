"""The file of an answer: NumPy's `.npz` with the arrays, and a JSON document with everything else. No pickles.

The member `document` has the bytes of `{"format": 1, "records": [...]}`. A record is `{"type": name, "fields": {...}}`.
In place of a value may stand `{"record": number}`, one of the records before; `{"array": name}`, a member of the
archive; or `{"mapping": [[key, value], ...]}`. The last record is the answer. Records that are the same object are
stored once.
"""

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from limelight.records import Record

FORMAT = 1
DOCUMENT = "document"


def save(record: Record, file: str | os.PathLike[str]) -> None:
    """Write a record and all that it holds into a file, which is replaced as a whole.

    Raises:
        OSError: the file cannot be written.
    """
    writer = _Writer()
    writer.record(record)
    document = json.dumps({"format": FORMAT, "records": writer.records}).encode()
    path = Path(file)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as opened:
            _write(opened, {DOCUMENT: np.frombuffer(document, np.uint8), **writer.arrays})
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _write(file: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write what `numpy.savez` writes, without the time of day: the same answer gives the same bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


class _Writer:
    """Collects records, each once, and arrays."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.arrays: dict[str, NDArray[Any]] = {}
        self._numbers: dict[int, int] = {}

    def record(self, record: Record) -> int:
        """Store a record after those that it holds, and return its number."""
        if id(record) not in self._numbers:
            stored = {each.name: self._value(getattr(record, each.name)) for each in fields(record)}  # type: ignore[arg-type]
            self.records.append({"type": type(record).__name__, "fields": stored})
            self._numbers[id(record)] = len(self.records) - 1
        return self._numbers[id(record)]

    def _value(self, value: Any) -> Any:
        if isinstance(value, Record):
            return {"record": self.record(value)}
        if isinstance(value, np.ndarray):
            name = f"array{len(self.arrays)}"
            self.arrays[name] = value
            return {"array": name}
        if isinstance(value, Mapping):
            return {"mapping": [[key, self._value(each)] for key, each in value.items()]}
        return [self._value(each) for each in value] if isinstance(value, tuple) else value
