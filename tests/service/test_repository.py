"""The repository: what is broken is refused with a reason, and the rest serves."""

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

from bundle.maps import MapWeights
from bundle.reader import BundleFolder
from bundle.samples import Sample, samples_file
from service import repository as repository_module
from service.engine.observer import NullObserver
from service.engine.providers import choose_provider
from service.errors import ModelNotFoundError, ModelRefusedError
from service.folders import scan
from service.repository import Repository, State
from service.settings import Settings
from tests.service import bundles
from tests.service.serving import CHECKS


class Seen(NullObserver):
    """Keeps what it is told of models."""

    def __init__(self) -> None:
        self.models: dict[tuple[str, int], bool] = {}

    def model(self, name: str, version: int, *, ready: bool, digest: str, provider: str) -> None:
        """Keep it."""
        assert bool(digest) == ready
        self.models[name, version] = ready


def load(path: Path, observer: NullObserver | None = None) -> Repository:
    """Load a repository on the CPU."""
    repository = Repository(Settings(repository=str(path)), choose_provider("cpu", lanes=2), CHECKS, observer=observer)
    asyncio.run(repository.load())
    return repository


def rewrite(folder: BundleFolder, name: str, data: bytes) -> None:
    """Replace a file of a bundle, hash and all."""
    import hashlib

    (folder.path / name).write_bytes(data)
    path = folder.path / "bundle.json"
    content = json.loads(path.read_text())
    for file in content["files"]:
        if file["path"] == name:
            file["sha256"] = hashlib.sha256(data).hexdigest()
    path.write_text(json.dumps(content))


def test_every_shape_of_model_loads_and_answers_its_samples(tmp_path: Path) -> None:
    for make in bundles.ALL:
        make(tmp_path)
    seen = Seen()
    repository = load(tmp_path, seen)
    assert repository.is_ready
    assert [each.name for each in repository.statuses()] == ["echo", "noisy", "paper", "picture", "tiny", "web"]
    assert set(seen.models.values()) == {True}
    model = repository.resolve("echo")
    assert [each.name for each in model.graphs] == ["encoder", "step"]
    for graph in model.graphs:
        assert graph.provider == "CPUExecutionProvider"
        assert graph.nodes["CPUExecutionProvider"] > 3
    assert model.generates and not repository.resolve("paper").generates


def test_the_highest_version_that_loads_is_the_default(tmp_path: Path) -> None:
    bundles.tiny(tmp_path, version=1)
    bundles.tiny(tmp_path, version=2)
    third = bundles.tiny(tmp_path, version=10)
    (third.path / "model.onnx").write_bytes(b"not what was exported")
    seen = Seen()
    repository = load(tmp_path, seen)
    assert [(each.version, each.state, each.is_default) for each in repository.statuses()] == [
        (1, State.READY, False),
        (2, State.READY, True),
        (10, State.FAILED, False),
    ]
    assert repository.resolve("tiny").version == 2
    assert repository.resolve("tiny", 1).version == 1
    assert seen.models == {("tiny", 1): True, ("tiny", 2): True, ("tiny", 10): False}
    with pytest.raises(ModelRefusedError, match=r"version 10 was refused: model\.onnx"):
        repository.resolve("tiny", 10)


def test_what_is_not_there_names_what_is(tmp_path: Path) -> None:
    bundles.tiny(tmp_path)
    bundles.noisy(tmp_path)
    repository = load(tmp_path)
    with pytest.raises(ModelNotFoundError, match="there are: noisy, tiny"):
        repository.resolve("nothing")
    with pytest.raises(ModelNotFoundError, match="no version 7; there are: 1"):
        repository.resolve("noisy", 7)
    with pytest.raises(ModelNotFoundError) as refused:
        repository.resolve("x" * 10**6)
    assert len(refused.value.message) < 200


def test_of_many_models_and_versions_a_message_names_some(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"model-{number:02d}" / "1").mkdir(parents=True)
        (tmp_path / "model-00" / str(number + 1)).mkdir(exist_ok=True)
    repository = load(tmp_path)
    with pytest.raises(ModelNotFoundError, match=r"model-00, model-01, .*model-19 and 10 more$"):
        repository.resolve("nothing")
    with pytest.raises(ModelNotFoundError, match=r"there are: 1, 2, .*20 and 10 more$"):
        repository.resolve("model-00", 99)


def test_an_empty_repository_is_not_ready(tmp_path: Path) -> None:
    repository = load(tmp_path)
    assert not repository.is_ready
    with pytest.raises(ModelNotFoundError, match="there are: none"):
        repository.resolve("tiny")


def test_other_entries_are_no_models(tmp_path: Path) -> None:
    bundles.tiny(tmp_path)
    (tmp_path / "Notes.txt").write_text("hello")
    (tmp_path / ".writing-1").mkdir()
    (tmp_path / "UPPER" / "1").mkdir(parents=True)
    (tmp_path / "tiny" / "01").mkdir()
    (tmp_path / "tiny" / "latest").mkdir()
    assert [(each.name, each.version) for each in load(tmp_path).statuses()] == [("tiny", 1)]


def wrong_logits(sample: Sample) -> Sample:
    """Off by a hundredth."""
    outputs = {**sample.outputs, "logits": sample.outputs["logits"] + np.float32(0.01)}
    return Sample(sample.tensors, outputs, sample.maps)


def wrong_map(sample: Sample) -> Sample:
    """Query and key swapped."""
    weights = np.swapaxes(sample.maps["encoder.0.self"].weights, 1, 2)
    return Sample(sample.tensors, sample.outputs, {**sample.maps, "encoder.0.self": MapWeights(weights)})


def wrong_tensor(sample: Sample) -> Sample:
    """Another token."""
    return Sample({"ids": sample.tensors["ids"] + 1}, sample.outputs, sample.maps)


def missing_output(sample: Sample) -> Sample:
    """An output that the model does not have."""
    return Sample(sample.tensors, {**sample.outputs, "other": np.zeros(1, np.float32)}, sample.maps)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (wrong_logits, "logits differs by up to 0.01"),
        (wrong_map, "encoder.0.self differs"),
        (wrong_tensor, "not turned into the tensor ids"),
        (missing_output, "no output other"),
    ],
)
def test_samples_that_disagree_refuse_the_model_and_no_other(tmp_path: Path, spoil, reason: str) -> None:  # type: ignore[no-untyped-def]
    bundles.noisy(tmp_path)
    folder = bundles.tiny(tmp_path)
    samples = [bundles.tiny_answer(bundles.ids_of(each)) for each in bundles.TINY_EXAMPLES]
    rewrite(folder, "samples.npz", samples_file([*samples[:2], spoil(samples[2])]))
    repository = load(tmp_path)
    status = repository.status("tiny")
    assert status.state is State.FAILED
    assert reason in status.reason
    assert str(tmp_path) not in status.reason
    assert repository.resolve("noisy")


def test_tokens_that_disagree_refuse_a_model_that_generates(tmp_path: Path) -> None:
    folder = bundles.echo(tmp_path)
    samples = [bundles.echo_answer(bundles.ids_of(each)) for each in bundles.ECHO_EXAMPLES]
    other = Sample(samples[0].tensors, {}, samples[0].maps, (5, *samples[0].token_ids[1:]))
    rewrite(folder, "samples.npz", samples_file([other, *samples[1:]]))
    assert "the tokens are" in load(tmp_path).status("echo").reason


def test_a_mask_that_is_not_heeded_shows_only_in_a_batch_and_refuses_the_model(tmp_path: Path) -> None:
    folder = bundles.tiny(tmp_path)
    import onnx

    model = onnx.load(folder.path / "model.onnx")
    for node in model.graph.node:
        if node.output[0] == "pm":  # the pooling attends to padding
            node.input[1], node.op_type = "flat", "Add"
            node.input[0] = "nothing"
            del node.input[2]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1, np.float32), "nothing"))
    rewrite(folder, "model.onnx", model.SerializeToString())
    reason = load(tmp_path).status("tiny").reason
    assert "in a batch" in reason


def test_a_graph_that_is_not_what_the_bundle_states_is_refused(tmp_path: Path) -> None:
    folder = bundles.tiny(tmp_path)
    other = bundles.noisy(tmp_path)
    rewrite(folder, "model.onnx", (other.path / "model.onnx").read_bytes())
    reason = load(tmp_path).status("tiny").reason
    assert "inputs" in reason and "the bundle states" in reason


def test_a_repository_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    from bundle.errors import LimelightError

    with pytest.raises(LimelightError, match="cannot be read"):
        load(tmp_path / "none")


def test_a_version_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    folder = bundles.tiny(outside)
    (inside / "tiny").mkdir(parents=True)
    (inside / "tiny" / "1").symlink_to(folder.path)
    shutil.copytree(folder.path, inside / "tiny" / "2")
    repository = load(inside)
    assert repository.status("tiny", 1).state is State.FAILED
    assert "not a plain folder" in repository.status("tiny", 1).reason
    assert repository.resolve("tiny").version == 2


def test_copies_are_served_by_the_names_of_their_folders(tmp_path: Path) -> None:
    """Rollback by a higher version, promotion to another name, and a rename: everywhere the folder's name counts."""
    folder = bundles.tiny(tmp_path)
    for name, version in (("tiny", "3"), ("promoted", "12")):
        shutil.copytree(folder.path, tmp_path / name / version)
    folder.path.rename(tmp_path / "tiny" / "2")
    seen = Seen()
    repository = load(tmp_path, seen)
    assert seen.models == {("promoted", 12): True, ("tiny", 2): True, ("tiny", 3): True}
    for name, version in seen.models:
        model = repository.resolve(name, version)
        assert (model.name, model.version, model.digest) == (name, version, folder.digest)
        assert (model.description.name, model.description.version) == (name, version)
    assert repository.resolve("tiny").version == 3


def test_a_folder_that_cannot_be_read_is_that_models_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as made:
        path = Path(made)
        path.chmod(0o755)
        bundles.tiny(path)
        bundles.noisy(path)
        (path / "noisy").chmod(0o000)
        try:
            if os.geteuid() == 0:  # who may read everything
                os.seteuid(65534)
            found = scan(path)
        finally:
            os.seteuid(os.getuid())
            (path / "noisy").chmod(0o755)
        assert set(found) == {("noisy", 0), ("tiny", 1)}
        monkeypatch.setattr(repository_module, "scan", lambda _: found)
        repository = load(path)
        assert repository.resolve("tiny")
        with pytest.raises(ModelRefusedError, match=r"noisy version 0 was refused: bundle\.json is missing"):
            repository.resolve("noisy")
