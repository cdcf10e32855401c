"""Records, cores that are kept awake while they are measured, and the flags of measured servers."""

import ast
import os
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from benchmarks import records
from benchmarks.awake import awake
from benchmarks.processor import family
from benchmarks.records import ROOT
from benchmarks.tables import of_rows
from limelight_service.settings import Settings


@dataclass(frozen=True)
class Row:
    name: str
    rate: float
    shares: dict[str, float]


def test_rows_are_read_as_they_were_saved_with_their_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_TRIED", tmp_path)
    records.save("some", [Row("ä", 1.5, {"0": 0.5})], keep=False, settings={"seconds": 2})
    found = records.read(records.place("some", keep=False))
    assert found["rows"] == [{"name": "ä", "rate": 1.5, "shares": {"0": 0.5}}]
    assert found["settings"] == {"seconds": 2}
    assert set(found) == {"machine", "commit", "settings", "rows"} and "cores" in found["machine"]


def test_the_same_content_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        records.write(tmp_path / name, {"rows": [1, 2]})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_rows_are_printed_as_a_table() -> None:
    assert of_rows([Row("a", 1234.5678, {"0": 0.25})])[2] == "| a | 1235 | 0 0.25 |"
    assert of_rows([]) == []


def test_cores_are_kept_awake_by_what_gives_way_to_everybody() -> None:
    before = set(family(os.getpid()))
    with awake():
        spinning = set(family(os.getpid())) - before
        assert len(spinning) == len(os.sched_getaffinity(0))
    assert not spinning & set(family(os.getpid()))


def test_the_servers_of_the_benchmarks_are_started_with_settings_that_there_are() -> None:
    known = {f"--{each.name.replace('_', '-')}" for each in fields(Settings) if each.metadata["rule"].group is not None}
    calls = [
        node
        for path in sorted((ROOT / "tools" / "benchmarks").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ServerProcess"
    ]
    flags = {
        each.value
        for call in calls
        for each in ast.walk(call)
        if isinstance(each, ast.Constant) and str(each.value).startswith("--")
    }
    assert "--provider" in flags
    assert flags <= known
