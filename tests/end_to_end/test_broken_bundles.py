"""Bundles that must not be loaded, in a repository with a good one: that one serves, and each says why it does not."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

import limelight
from tests.hostile.forge import edit, replace_file
from tests.kit import bundles
from tests.kit.serving import Running, serving


def wrong_hash(folder: Path) -> None:
    data = bytearray((folder / "model.onnx").read_bytes())
    data[-1] ^= 1
    (folder / "model.onnx").write_bytes(data)


def missing_file(folder: Path) -> None:
    (folder / "model.onnx").unlink()


def broken_json(folder: Path) -> None:
    path = folder / "bundle.json"
    path.write_text(path.read_text()[:-20])


def newer_schema(folder: Path) -> None:
    edit(folder, lambda content: content.update(schema_version=2))


def path_that_leaves(folder: Path) -> None:
    edit(folder, lambda content: content["files"].append({"path": "../../tiny/1/model.onnx", "sha256": "0" * 64}))


def symlink_that_leaves(folder: Path) -> None:
    outside = folder.parent.parent / "tiny" / "1" / "model.onnx"
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").symlink_to(outside)


def forbidden_operator(folder: Path) -> None:
    model = onnx.load(str(folder / "model.onnx"))
    model.opset_import.add(domain="com.example", version=1)
    model.graph.node.add(op_type="ReadFile", domain="com.example", input=["ids"], output=["secret"])
    replace_file(folder, "model.onnx", model.SerializeToString())


def samples_that_disagree(folder: Path) -> None:
    model = onnx.load(str(folder / "model.onnx"))
    weights = next(each for each in model.graph.initializer if each.name == "classes")
    array = onnx.numpy_helper.to_array(weights) * 1.01
    weights.CopyFrom(onnx.numpy_helper.from_array(array, "classes"))
    replace_file(folder, "model.onnx", model.SerializeToString())


BROKEN = {
    wrong_hash: "model.onnx is not the exported file: its SHA-256 differs",
    missing_file: "model.onnx is missing",
    broken_json: "bundle.json is not a bundle in JSON",
    newer_schema: "schema version 2",
    path_that_leaves: "is not a plain file name inside the bundle",
    symlink_that_leaves: "symbolic link",
    forbidden_operator: "com.example.ReadFile, which is not allowed",
    samples_that_disagree: "is not answered as at its export: logits differs by up to",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    repository = tmp_path_factory.mktemp("broken")
    bundles.tiny(repository)
    for break_it in BROKEN:
        folder = repository / break_it.__name__ / "1"
        shutil.copytree(repository / "tiny" / "1", folder)
        edit(folder, lambda content, name=break_it.__name__: content["description"].update(name=name))
        break_it(folder)
    with serving(repository) as started:
        yield started, repository


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda each: each.__name__)
def test_a_broken_bundle_says_why_and_the_good_one_answers(
    break_it: Callable[[Path], None], running: tuple[Running, Path]
) -> None:
    started, repository = running
    with limelight.Client(started.server.address) as client:
        status = next(each for each in client.models() if each.name == break_it.__name__)
        assert (status.state, BROKEN[break_it] in status.reason) == ("failed", True), status.reason
        assert str(repository) not in status.reason
        example = client.model("tiny").examples[0]
        with pytest.raises(limelight.FailedPrecondition) as refusal:
            client.predict(break_it.__name__, example)
        assert BROKEN[break_it] in refusal.value.message
        assert "logits" in client.predict("tiny", example).outputs
