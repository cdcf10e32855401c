"""Models that are given one by one, in the forms in which volumes come."""

import os
import shutil
from pathlib import Path

import pytest

from limelight.v1 import service_pb2
from limelight_bundle.errors import BundleError
from limelight_service.repository.folders import given
from limelight_service.settings import Settings
from limelight_service.supervisor.desired import DesiredState
from tests.kit import bundles
from tests.kit.serving import predict, serving, text


def mounted(bundle: Path, folder: Path) -> Path:
    """Mount a folder as Kubernetes mounts a ConfigMap: entries link to `..data`, that to a dated folder."""
    shutil.copytree(bundle, folder / "..2026_11_28")
    (folder / "..data").symlink_to("..2026_11_28")
    for each in bundle.iterdir():
        (folder / each.name).symlink_to(f"..data/{each.name}")
    return folder


def linked(bundle: Path, folder: Path) -> Path:
    """Make a folder of links to each file, as KServe makes it for a model on a volume."""
    folder.mkdir()
    for each in bundle.iterdir():
        (folder / each.name).symlink_to(each)
    return folder


def models(tmp_path: Path) -> dict[str, tuple[Path, list[int]]]:
    """Make every form of a model's folder, with the versions that it has."""
    bundle = bundles.tiny(tmp_path / "repository").path
    flat = Path(shutil.copytree(bundle, tmp_path / "flat"))
    (tmp_path / "link").symlink_to(flat)
    versions = tmp_path / "versions"
    shutil.copytree(bundle, versions / "1")
    (versions / "2").symlink_to(flat)
    (versions / "notes").mkdir()
    return {
        "flat": (flat, [1]),
        "link": (tmp_path / "link", [1]),
        "versions": (versions, [1, 2]),
        "numbered": (Path(shutil.copytree(bundle, tmp_path / "a, b" / "7")), [7]),
        "config-map": (mounted(bundle, tmp_path / "mounted"), [1]),
        "projected": (mounted(versions, tmp_path / "projected"), [1, 2]),
        "kserve": (linked(bundle, tmp_path / "kserve"), [1]),
    }


@pytest.mark.parametrize("frontends", [0, 1])
def test_models_in_folders_of_their_own_are_served_beside_a_repository(tmp_path: Path, frontends: int) -> None:
    made = models(tmp_path)
    flags = [f"{name}={folder}" for name, (folder, _) in made.items()]
    with serving(tmp_path / "repository", model=flags, frontends=frontends) as running:
        listed = running.stub.ListModels(service_pb2.ListModelsRequest()).models
        found: dict[str, list[int]] = {}
        for each in listed:
            assert each.state == service_pb2.MODEL_STATE_READY, each
            found.setdefault(each.model.name, []).append(each.model.version)
        assert found == {name: versions for name, (_, versions) in made.items()} | {"tiny": [1]}
        answers = [running.stub.Predict(predict(name, text("the cat"))) for name in found]
        assert [each.predictions[0].provenance.model.name for each in answers] == list(found)
        assert len({str(each.predictions[0].results) for each in answers}) == 1


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("nothing", "cannot be read: No such file or directory"),
        ("empty", "has no bundle.json, and no version as 1/bundle.json"),
        ("repository", "it has folders of models: give it as --repository "),
    ],
)
def test_a_folder_without_a_model_says_what_it_lacks(tmp_path: Path, folder: str, says: str) -> None:
    bundles.tiny(tmp_path / "repository")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match=says):
        given("dates", tmp_path / folder)


def test_a_model_is_not_taken_from_two_places(tmp_path: Path) -> None:
    folder = bundles.tiny(tmp_path).path
    with (
        pytest.raises(BundleError, match="tiny is in the repository, and given with --model"),
        serving(tmp_path, model=f"tiny={folder}"),
    ):
        pass


def test_a_link_that_leads_nowhere_is_no_version(tmp_path: Path) -> None:
    versions = models(tmp_path)["versions"][0]
    os.symlink(tmp_path / "gone", versions / "3")
    assert sorted(given("dates", versions)) == [("dates", 1), ("dates", 2)]
    settings = Settings(model=f"dates={versions}")
    assert DesiredState(settings).folders == {}
