"""Kept exports: which calls count as equal."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from limelight_bundle.errors import BundleError
from limelight_export import pipeline
from tests.kit import exports, tiny

FRESH = """
import torch
from tests.kit import exports, tiny
torch.manual_seed(0)
print(exports.fingerprint(tiny.trained(tiny.Reader(), tiny.reader_card()), {"interventions": True}))
"""


def reader() -> Any:
    torch.manual_seed(0)
    return tiny.trained(tiny.Reader(), tiny.reader_card())


def test_an_equal_call_copies_what_another_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = exports.export_model(reader(), tmp_path / "first")
    monkeypatch.setattr(pipeline, "export_model", lambda *_args, **_options: pytest.fail("exported again"))
    second = exports.export_model(reader(), tmp_path / "second")
    assert (second.path, second.digest) == (tmp_path / "second" / "reader" / "1", first.digest)
    third = exports.export_model(reader(), tmp_path / "second")
    assert third.path.name == "2" and third.bundle.description.version == 2
    with pytest.raises(BundleError, match="exists already"):
        exports.export_model(reader(), tmp_path / "second", version=2)


def test_a_key_is_equal_in_every_process() -> None:
    run = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == exports.fingerprint(reader(), {"interventions": True})


def _closed_over(value: int) -> type:
    class Local(nn.Module):
        def forward(self, given: int) -> int:
            return given + value

    return Local


def _trained_further(trained: Any) -> Any:
    with torch.no_grad():
        trained.model.classify.bias[0] += 1e-6
    return trained


@pytest.mark.parametrize(
    "changed",
    [
        _trained_further,
        lambda trained: replace(trained, model=tiny.ReaderOfPadding()),
        lambda trained: replace(trained, card=tiny.long_reader_card("reader")),
        lambda trained: replace(trained, examples=trained.examples[:1]),
        lambda trained: replace(trained, judge=lambda network: ()),
    ],
)
def test_any_change_of_content_changes_the_key(changed: Callable[[Any], Any]) -> None:
    assert exports.fingerprint(changed(reader())) != exports.fingerprint(reader())


def test_classes_made_in_a_function_differ_by_what_they_close_over() -> None:
    assert exports.fingerprint(_closed_over(1)()) != exports.fingerprint(_closed_over(2)())
    assert exports.fingerprint(_closed_over(1)()) == exports.fingerprint(_closed_over(1)())


def test_a_module_whose_weights_are_parametrised_is_known_by_them() -> None:
    def normed(value: float) -> nn.Module:
        made = nn.Linear(2, 2)
        nn.init.constant_(made.weight, value)
        nn.init.zeros_(made.bias)
        torch.manual_seed(0)
        return nn.utils.parametrizations.spectral_norm(made)

    assert exports.fingerprint(normed(1)) == exports.fingerprint(normed(1)) != exports.fingerprint(normed(2))
