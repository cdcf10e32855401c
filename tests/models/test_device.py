"""Training on a device: those that are not there are refused, and nothing is mixed with what stays on the CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from limelight.base.commands import CommandError
from limelight_models.data.dataset import DataError
from limelight_models.recipes import device
from limelight_models.training.command import train
from tests.kit.small import PUBLISHED
from tests.models.runs import order, run

CHECKS = (*PUBLISHED, "refuses", "goes on", "learns to see")


@pytest.fixture(scope="module")
def failed() -> dict[str, str]:
    """Failures of the checks on a device that is not there: the ends of their tracebacks, empty where one passes."""
    result = subprocess.run([sys.executable, "-m", "tests.models.pretended"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found: dict[str, str] = json.loads(result.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("check", CHECKS)
def test_training_leaves_nothing_on_the_cpu(check: str, failed: dict[str, str]) -> None:
    """`tests.models.pretended` trains and measures each model on a device that refuses tensors of two devices."""
    assert not failed[check], failed[check]


@pytest.mark.parametrize("name", ["cuda:7", "gpu", "cuda:", "auto", ""])
def test_a_device_that_is_not_there_is_said_in_a_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=rf"^there is no device '{name}' here; there is cpu") as caught:
        train("han", data="nowhere", out=tmp_path / "run", device=name)
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()


def test_the_first_gpu_needs_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert device.find("cpu") == torch.device("cpu") and not chosen
    assert [device.find(each) for each in ("cuda", "cuda:1")] == chosen == [torch.device("cuda", n) for n in (0, 1)]
    with pytest.raises(DataError, match=r"there is cpu, cuda:0, cuda:1$"):
        device.find("cuda:2")


def test_a_run_of_the_cpu_has_the_random_numbers_of_the_cpu_alone(tiny: None, documents: Path, tmp_path: Path) -> None:
    run(order("han", documents, tmp_path / "run", epochs=1))
    with safe_open(tmp_path / "run" / "resume.safetensors", "pt") as file:
        assert [name for name in file.keys() if name.startswith("random")] == ["random"]  # noqa: SIM118
