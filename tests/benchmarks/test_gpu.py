"""The stages for a GPU, on the CPU: they run from end to end, and their results make a page."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import limits, parity
from benchmarks.gpu.models import PADDED
from benchmarks.gpu.setup import Load, Setup
from tests.kit import bundles


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    encoders = tmp_path / "models" / "encoders"
    encoders.mkdir(parents=True)
    bundles.tiny(encoders)
    monkeypatch.setattr(parity, "DEMO", tmp_path / "nothing")
    return Setup("cpu", tmp_path / "models", 0.05, tmp_path)


def test_parity_is_written_with_what_stays_on_the_cpu(setup: Setup) -> None:
    assert gpu.run_stage("parity", setup)
    (row,) = json.loads((setup.out / "parity.json").read_text())["rows"]
    assert (row["model"], row["refused"], row["outputs"], row["maps"]) == ("encoders/tiny", "", 0, 0)
    assert sum(row["on_cpu"].values()) > 0 and row["answers"] > 5


def test_a_model_that_the_server_refuses_fails_the_stage(setup: Setup) -> None:
    file = next(setup.encoders.glob("tiny/1/samples.npz"))
    file.write_bytes(b"nothing")
    assert not gpu.run_stage("parity", setup)
    (row,) = json.loads((setup.out / "parity.json").read_text())["rows"]
    assert row["refused"]


def test_a_way_in_which_models_are_refused_says_why(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (PADDED, "digits"):
        bundles.tiny(setup.encoders, name)
        next(setup.encoders.glob(f"{name}/1/samples.npz")).write_bytes(b"nothing")
    monkeypatch.setattr(limits, "WAYS", {"as it is": ()})
    monkeypatch.setattr(limits, "DEMO", setup.encoders)
    (row,) = limits.run(setup)
    assert row.p50 == {} and row.rate == row.long == row.small and "samples.npz" in str(row.rate)


def test_a_stage_that_fails_keeps_its_error(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(setup: Setup) -> Iterator[object]:
        yield Load(1.0, 2.0, 3.0, 4.0)
        raise RuntimeError("the card is gone")

    monkeypatch.setitem(gpu.STAGES, "predict", broken)
    assert not gpu.run_stage("predict", setup)
    found = json.loads((setup.out / "predict.json").read_text())
    assert "the card is gone" in found["failed"]
    assert found["rows"] == [{"rate": 1.0, "p50": 2.0, "p99": 3.0, "cpu": 4.0}]


def test_stages_of_two_cards_are_not_one_record(tmp_path: Path) -> None:
    for stage, card in (("parity", "H100"), ("predict", "H200")):
        content = {"card": card, "machine": "", "commit": ""}
        (tmp_path / f"{stage}.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="H200"):
        gpu.keep(tmp_path)


def test_without_a_gpu_it_ends_with_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "card", lambda: "")
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code == gpu.NO_GPU
