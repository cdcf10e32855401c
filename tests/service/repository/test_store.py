"""The models of an engine: what is broken is refused with a reason, and the rest serves."""

import asyncio
import json
import os
import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from limelight_bundle.maps import MapWeights
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample, samples_file
from limelight_service.engine.model import Model
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import choose_provider
from limelight_service.errors import ModelNotFoundError, ModelRefusedError, ModelUnavailableError
from limelight_service.hosting.hosted import HostedModel
from limelight_service.hosting.loading import Loader
from limelight_service.hosting.store import Load, ModelStore, Postponed
from limelight_service.observability.observer import NullObserver
from limelight_service.repository.catalogue import Catalogue, State
from limelight_service.repository.folders import scan
from limelight_service.settings import Settings
from limelight_service.supervisor.desired import DesiredState
from tests.kit import bundles
from tests.kit.serving import CHECKS, serving


class Seen(NullObserver):
    """Keeps what it is told of models."""

    def __init__(self) -> None:
        self.models: dict[tuple[str, int], bool] = {}

    def model(self, name: str, version: int, *, ready: bool, digest: str, provider: str) -> None:
        """Keep it."""
        assert bool(digest) == ready
        self.models[name, version] = ready


def loader(observer: NullObserver | None = None) -> Load:
    """Make the function that checks and loads a version on the CPU."""
    provider = choose_provider("cpu", workers=2)
    return Loader(Settings(), provider, CHECKS, observer or NullObserver(), lambda run: run(), open_model).load


def store_of(
    load: Load, observer: NullObserver | None = None, *, again: float = 5.0, load_wait_seconds: float = 60.0
) -> ModelStore:
    """Make a store on the CPU."""
    settings = Settings(load_wait_seconds=load_wait_seconds)
    return ModelStore(settings, choose_provider("cpu", workers=2), load, observer=observer, again=again)


def load(path: Path, observer: NullObserver | None = None) -> Catalogue[HostedModel]:
    """Load a repository as a start does."""

    async def run() -> Catalogue[HostedModel]:
        store = store_of(loader(observer), observer)
        await store.load_until_useful(await DesiredState(Settings(repository=str(path))).find())
        store.close()
        return store.catalogue

    return asyncio.run(run())


def loaded(catalogue: Catalogue[HostedModel], name: str, version: int = 0) -> Model:
    """Give a model that can answer."""
    hosted = catalogue.resolve(name, version).model
    assert hosted is not None
    return hosted.model


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
    model = loaded(repository, "echo")
    assert [each.name for each in model.graphs] == ["encoder", "step"]
    for graph in model.graphs:
        assert graph.provider == "CPUExecutionProvider"
        assert graph.nodes["CPUExecutionProvider"] > 3
    assert model.generates and not loaded(repository, "paper").generates


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


def test_of_many_models_and_versions_a_message_names_some(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"model-{number:02d}" / "1").mkdir(parents=True)
        (tmp_path / "model-00" / str(number + 1)).mkdir(exist_ok=True)
    repository = load(tmp_path)
    with pytest.raises(ModelNotFoundError, match=r"model-00, model-01, .*model-19 and 10 more$"):
        repository.resolve("nothing")
    with pytest.raises(ModelNotFoundError, match=r"there are: 1, 2, .*20 and 10 more$"):
        repository.resolve("model-00", 99)


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
    from limelight_bundle.errors import LimelightError

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
    assert "not a regular folder" in repository.status("tiny", 1).reason
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
        model = loaded(repository, name, version)
        assert (model.name, model.version, model.digest) == (name, version, folder.digest)
        assert (model.description.name, model.description.version) == (name, version)
    assert repository.resolve("tiny").version == 3


def test_a_folder_that_cannot_be_read_is_that_models_failure() -> None:
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

        async def run() -> Catalogue[HostedModel]:
            store = store_of(loader())
            await store.load_until_useful(found)
            return store.catalogue

        catalogue = asyncio.run(run())
        assert catalogue.resolve("tiny").model
        with pytest.raises(ModelRefusedError, match=r"noisy version 0 was refused: bundle\.json is missing"):
            catalogue.resolve("noisy")


def test_a_check_that_came_to_no_end_is_tried_again_and_says_so(tmp_path: Path) -> None:
    folder = bundles.tiny(tmp_path)
    interrupted, load = ["first", "second"], loader()

    def after_two(name: str, version: int, path: Path) -> HostedModel | Postponed | str:
        return Postponed("it was ended") if interrupted and interrupted.pop() else load(name, version, path)

    async def run() -> None:
        store = store_of(after_two, again=0.05)
        catalogue = store.catalogue
        changes = asyncio.Event()
        catalogue.on_change(changes.set)
        await store.load("tiny", 1, folder.path)
        status = catalogue.status("tiny")
        assert (status.state, status.reason) == (State.LOADING, "it was ended; it is tried again in 0.05 s")
        with pytest.raises(ModelUnavailableError, match="still being loaded: it was ended"):
            catalogue.resolve("tiny")
        assert catalogue.why_not_ready() == ""
        while not catalogue.is_ready:
            changes.clear()
            await asyncio.wait_for(changes.wait(), 60)
        assert not interrupted and catalogue.status("tiny").reason == ""
        store.close()

    asyncio.run(run())


def test_a_version_that_waits_to_be_tried_again_can_be_unloaded(tmp_path: Path) -> None:
    folder = bundles.tiny(tmp_path)

    async def run() -> None:
        store = store_of(lambda *_: Postponed("it was ended"))
        await store.load("tiny", 1, folder.path)
        await store.unload("tiny", 1)
        assert store.catalogue.statuses() == []

    asyncio.run(run())


@pytest.mark.parametrize("waits", [0.2, 600.0])
def test_a_start_waits_for_a_model_that_is_held_up_while_none_can_answer_and_then_a_while(
    tmp_path: Path, waits: float
) -> None:
    bundles.tiny(tmp_path)
    bundles.tiny(tmp_path, "slow")
    load, let_go = loader(), threading.Event()

    def held_up(name: str, version: int, path: Path) -> HostedModel | Postponed | str:
        assert name != "slow" or let_go.wait(120)
        return load(name, version, path)

    async def run() -> None:
        store = store_of(held_up, load_wait_seconds=waits)
        folders = await DesiredState(Settings(repository=str(tmp_path))).find()
        store.expect(folders)
        starting = asyncio.ensure_future(store.load_until_useful(folders))
        if waits > 1:
            while not store.catalogue.is_ready:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            assert not starting.done()
            let_go.set()
            await starting
            assert store.catalogue.status("slow").state is State.READY
        else:
            await starting
            assert store.catalogue.status("tiny").state is State.READY
            assert store.catalogue.status("slow").state is State.LOADING
            let_go.set()
            while store.catalogue.status("slow").state is State.LOADING:
                await asyncio.sleep(0.01)
        store.close()

    asyncio.run(run())


SKIPPED: list[tuple[str, str]] = [
    ("Digits/1", "Digits is left out: a model's name is of lower-case letters, digits, _ and -, at most 64; rename it"),
    ("Digits/1", "rename it, as to 'digits'"),
    ("my model/1", "rename it, as to 'my-model'"),
    ("digits/v1", "digits/v1 is left out: a version is a number from 1, without zeros; rename it, as to '1'"),
    ("digits/007", "digits/007 is left out: a version is a number from 1, without zeros; rename it, as to '7'"),
    ("digits/latest", "rename it to its number"),
    ("digits", "digits has a bundle and no folder of its version: move what is in it to digits/1/"),
    ("3", "is a model's own folder: give the parent folder"),
    ("", "is itself a version of a model: give the folder two above it"),
]


@pytest.mark.parametrize(("place", "said"), SKIPPED, ids=lambda each: each[:20])
def test_a_folder_that_is_no_model_is_told_with_what_to_do(
    place: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repository = tmp_path / "repository"
    folder = repository / place
    folder.mkdir(parents=True)
    (folder / "bundle.json").write_text("{}")
    catalogue = load(repository)
    assert any(said in each.message for each in caplog.records if each.levelname == "WARNING"), caplog.text
    assert "there is nothing to serve" in caplog.text
    assert "there is nothing to serve" in catalogue.why_not_ready()


def test_what_is_left_out_beside_models_is_told_and_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bundles.tiny(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "tiny")
    (tmp_path / "hollow").mkdir()
    for name in (".git", "lost+found"):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("ours")
    assert load(tmp_path).why_not_ready() == ""
    said = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert [each.split(" is left out: ")[0] for each in said] == ["hollow", "link"]
    assert "it is a link, which is not followed" in said[1]
    for number in range(100):
        (tmp_path / f"Model {number}").mkdir()
    caplog.clear()
    load(tmp_path)
    said = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert len(said) == 21 and said[-1] == "82 more folders of the repository are no models"


def test_health_says_once_why_nothing_can_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = bundles.tiny(tmp_path)
    (folder.path / "model.onnx").write_bytes(b"")
    with serving(tmp_path) as running:
        stub = health_pb2_grpc.HealthStub(running.channel)
        for _ in range(3):
            answer = stub.Check(health_pb2.HealthCheckRequest())
            assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
    said = [each.message for each in caplog.records if "health was asked for" in each.message]
    assert len(said) == 1 and "no model can answer: tiny version 1 was refused: model.onnx" in said[0]
