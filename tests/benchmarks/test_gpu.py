"""The proof for a GPU, on the CPU: that it runs from end to end, so that whoever has a GPU only starts it."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks import gpu
from service.engine.cuda import Cuda
from service.engine.providers import CUDA, on_cuda, runtime
from tests.service import bundles


def test_every_way_is_reported_for_every_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository, report = tmp_path / "models", tmp_path / "report.json"
    repository.mkdir()
    bundles.tiny(repository)
    arguments = ["--repository", str(repository), "--seconds", "0.01", "--rounds", "1", "--json", str(report)]
    monkeypatch.setattr(sys, "argv", ["gpu", "--provider", "cpu", *arguments])
    gpu.main()
    found = json.loads(report.read_text())["reports"]
    ways = [*gpu.ways(gpu.STAND_IN), "CPU"]
    assert [(each["model"], each["way"]) for each in found] == [("tiny", way) for way in ways]
    for each in found:
        assert max(each["differences"].values()) < 1e-4
        assert each["served"] > 0
        assert set(each["attended"]) == {"none", "all", "halves", "a row"}
    assert "| tiny | stand-in, one lane | main: " in capsys.readouterr().out


def test_every_row_is_answered_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles.tiny(tmp_path)
    monkeypatch.setattr(gpu, "MANY", 64)
    (line,) = asyncio.run(gpu.short_of_memory(tmp_path, gpu.STAND_IN))
    assert line.startswith("tiny: 64 rows in batches of ")


def test_the_ways_of_a_gpu_differ_in_what_they_are_named_after() -> None:
    ways = gpu.ways(on_cuda(Cuda()))
    assert {way: each.options["use_tf32"] for way, each in ways.items()} == {
        "CUDA": "0",
        "CUDA, nothing recorded": "0",
        "CUDA, one lane": "0",
        "CUDA, maps cut by NumPy": "0",
        "CUDA, TF32": "1",
    }
    assert not ways["CUDA, nothing recorded"].records
    assert ways["CUDA, one lane"].lanes == 1


@pytest.mark.skipif(CUDA in runtime().get_available_providers(), reason="this runtime has CUDA")
def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code == gpu.NO_GPU
