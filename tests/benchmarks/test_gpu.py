"""The proof for a GPU, on the CPU: it runs from end to end."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import gpu
from tests.service import bundles


def test_every_way_is_reported_for_every_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, report = tmp_path / "models", tmp_path / "report.json"
    repository.mkdir()
    bundles.tiny(repository)
    monkeypatch.setattr(gpu, "WAYS", {"as it is": ()})
    arguments = ["--repository", str(repository), "--seconds", "0.05", "--json", str(report)]
    monkeypatch.setattr(sys, "argv", ["gpu", "--provider", "cpu", *arguments])
    gpu.main()
    found = json.loads(report.read_text())["reports"]
    assert [(each["model"], each["way"]) for each in found] == [("tiny", "as it is"), ("tiny", "CPU")]
    for each in found:
        assert set(each["nodes"]["main"]) == {"CPUExecutionProvider"}
        assert each["served"] > 0 and min(each["rates"].values()) > 0
        assert set(each["attended"]) == {"none", "all", "float16", "one row"}


def test_without_a_gpu_it_ends_with_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "card_name", lambda: "")
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code == gpu.NO_GPU
