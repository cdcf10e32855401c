"""Graphs that are too large for one file: weights beside them, hashed, checked and served as any other."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import limelight
from limelight_bundle.errors import BundleError
from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_bundle.writer import write_bundle
from limelight_export.execution import external_weights
from limelight_export.pipeline import export_model
from tests.export.test_export_precision import small_matrices, wide  # noqa: F401
from tests.kit import exports, tiny
from tests.kit.serving import serving


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One model four times: in one file, then with its weights beside it, in every precision."""
    folder = tmp_path_factory.mktemp("large")
    exports.export_model(wide(), folder, interventions=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_weights, "MAX_EMBEDDED_BYTES", 5_000)
        patch.setattr(external_weights, "_PAGE", 512)
        for precision in ("float32", "float16", "int8"):
            export_model(wide(), folder, precision=precision, interventions=False)
    return folder


@pytest.fixture(scope="module")
def folders(repository: Path) -> dict[int, BundleFolder]:
    return {version: read_bundle(repository / "reader" / str(version)) for version in range(1, 5)}


@pytest.fixture(scope="module")
def client(repository: Path) -> Iterator[limelight.Client]:
    with serving(repository, lanes=1) as running, limelight.Client(running.server.address) as made:
        yield made


def test_weights_lie_beside_the_graph_and_are_hashed(folders: dict[int, BundleFolder]) -> None:
    files = {version: {each.path for each in folder.bundle.files} for version, folder in folders.items()}
    assert files[1] == {"model.onnx", "samples.npz", "words.json"}
    assert all(files[version] == files[1] | {"weights.data"} for version in (2, 3, 4))
    whole, parted = (onnx.load(str(folders[version].file("model.onnx"))) for version in (1, 2))
    assert list(whole.graph.node) == list(parted.graph.node)
    tensors = zip(whole.graph.initializer, parted.graph.initializer, strict=True)
    assert all((one.name, one.dims, one.raw_data) == (two.name, two.dims, two.raw_data) for one, two in tensors)
    sizes = {version: folder.graph_bytes["main"] for version, folder in folders.items()}
    assert folders[2].file("model.onnx").stat().st_size < sizes[1] < sizes[2] < sizes[1] + 20_000
    assert sizes[4] < sizes[1]


def test_they_are_served_with_the_same_answers(client: limelight.Client) -> None:
    states = {each.version: each.state for each in client.models()}
    assert states == dict.fromkeys(range(1, 5), "ready")
    one, other = (client.attend("reader", {"text": "a cat ran on the mat"}, version=version) for version in (1, 2))
    np.testing.assert_array_equal(one.prediction.outputs["logits"], other.prediction.outputs["logits"])


def test_changed_weights_are_refused(folders: dict[int, BundleFolder], tmp_path: Path) -> None:
    folder = folders[2]
    files: dict[str, bytes | Path] = {each.path: folder.file(each.path) for each in folder.bundle.files}
    written = write_bundle(tmp_path, folder.bundle, files, version=1)
    data = bytearray(written.file("weights.data").read_bytes())
    data[-1] ^= 1
    written.file("weights.data").write_bytes(data)
    with pytest.raises(BundleError, match=r"weights\.data is not the exported file"):
        read_bundle(written.path)


def test_a_name_means_the_file_beside_the_graph_and_no_other(folders: dict[int, BundleFolder], tmp_path: Path) -> None:
    """A graph in a folder of its own reads what lies there: a file of the same name elsewhere proves nothing."""
    folder = folders[2]
    bundle = type(folder.bundle).FromString(folder.bundle.SerializeToString())
    bundle.graphs[0].file = "graphs/model.onnx"
    files: dict[str, bytes | Path] = {each.path: folder.file(each.path) for each in folder.bundle.files}
    files["graphs/model.onnx"] = files.pop("model.onnx")
    with pytest.raises(BundleError, match="reads weights from a file that the bundle does not list"):
        write_bundle(tmp_path, bundle, files, version=1)
    files["graphs/weights.data"] = files.pop("weights.data")
    assert write_bundle(tmp_path, bundle, files, version=1).graph_bytes == folder.graph_bytes


def test_weights_that_several_graphs_have_or_a_large_one_has_stand_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(external_weights, "MAX_EMBEDDED_BYTES", 700)
    monkeypatch.setattr(external_weights, "_PAGE", 256)
    folder = export_model(replace(tiny.trained(tiny.Writer(), tiny.writer_card()), metrics=()), tmp_path)
    assert {each.path for each in folder.bundle.files if each.path.endswith("data")} == {"weights.data"}
    beside = {
        name: {
            each.name
            for each in onnx.load(folder.file(f"{name}.onnx"), load_external_data=False).graph.initializer
            if each.external_data
        }
        for name in ("step", "encoder")
    }
    assert beside == {"step": {"model.scores.weight", "model.target.weight"}, "encoder": set()}
