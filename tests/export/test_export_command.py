"""`limelight export`."""

from pathlib import Path

import pytest

from limelight import cli
from limelight.base import installing
from limelight_bundle.reader import read_bundle
from limelight_models.cards.card import Metric
from limelight_models.recipes.recipe import Blueprint
from limelight_models.recipes.settings import Settings
from limelight_models.training.checkpoint import write_weights
from limelight_models.training.runs import Run, write_results, write_run
from limelight_models.training.trainer import WEIGHTS
from limelight_models.zoo.vision.vit import VitConfig
from tests.kit import examples


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Run folder of a small model that learned nothing."""
    config = VitConfig(classes=2, d_model=8, layers=1, heads=2, d_hidden=12)
    data = {"name": "none", "licence": "", "training_examples": 3, "held_out_examples": 1, "summary": ""}
    run = Run("vit", "", "vit", Blueprint(config, ("a", "b"), {}), Settings(), data)
    write_run(tmp_path / "run", run)
    write_weights(tmp_path / "run" / WEIGHTS, run.build())
    metric = Metric(name="accuracy", value=0.5, split="held-out")
    write_results(tmp_path / "run", [metric], [{"image": examples.picture(0, (8, 8))}], {})
    return tmp_path / "run"


def test_a_run_becomes_the_next_version(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository = tmp_path / "repository"
    assert cli.main(["export", str(run_folder), "--repository", str(repository), "--version", "4"]) == 0
    printed = capsys.readouterr().out
    assert "vit/4" in printed
    assert f"serve it with: limelight serve --repository {repository}\n" in printed
    assert "limelight attend vit --example 0\n" in printed
    description = read_bundle(repository / "vit" / "4").bundle.description
    assert description.training_data.training_examples == 3
    assert description.metrics[0].value == 0.5
    assert cli.main(["export", str(run_folder), "--repository", str(repository), "--version", "4"]) == 1
    assert "vit/4 exists already" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", str(tmp_path), "--repository", str(tmp_path / "repository")]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "repository").exists()


@pytest.mark.parametrize(
    ("command", "missing", "what", "extra"),
    [
        (["export", "run", "--repository", "repository"], "onnxscript", "`limelight export`", "train,serve"),
        (["train", "han", "--data", "data.tsv", "--out", "run"], "torch", "training", "train"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_for_this_environment(
    command: list[str], missing: str, what: str, extra: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, missing, None)
        assert cli.main(command) == 1
    wanted = f"limelight: {what} needs {missing}, which is not installed: {installing.extra(extra)}\n"
    assert capsys.readouterr().err == wanted
