"""Exporting more than once: recurrent layers, versions, and the model that was trained."""

from pathlib import Path

import pytest
import torch

from limelight_bundle.errors import BundleError
from limelight_export import export_model
from tests.kit import tiny


def test_a_second_recurrent_export_in_one_process_keeps_the_length(tmp_path: Path) -> None:
    """Each runs at many lengths before it is written; PyTorch by itself freezes the length of all but the first."""
    for version in (1, 2):
        folder = export_model(tiny.trained(tiny.Documents(), tiny.documents_card(), "the cat sat ."), tmp_path)
        assert folder.bundle.description.version == version
        assert (folder.path / "model.onnx").is_file()


def test_the_trained_model_stays_as_it_was(tmp_path: Path) -> None:
    model = tiny.Reader().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    export_model(tiny.trained(model, tiny.reader_card()), tmp_path, version=7)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with pytest.raises(BundleError, match="reader/7 exists already"):
        export_model(tiny.trained(model, tiny.reader_card()), tmp_path, version=7)
    assert [path.name for path in (tmp_path / "reader").iterdir()] == ["7"]
    assert [path.name for path in tmp_path.iterdir()] == ["reader"]
