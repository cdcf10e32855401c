"""A model whose attention requests can change has its weights once: on disk, and in memory."""

from pathlib import Path

import numpy as np
import pytest
import torch

import limelight
from benchmarks.encoder import export_encoder
from benchmarks.encoder_sizes import EncoderConfig
from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.runtime.sessions import open_sessions
from tests.kit.serving import serving

# 14 MB of weights.
SIZES = EncoderConfig(layers=2, width=256, heads=4, inner=1024)
WORDS = {"token_ids": np.arange(1, 40)}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model without interventions, and with them."""
    folder = tmp_path_factory.mktemp("repository")
    torch.set_num_threads(1)
    for name in ("without", "with"):
        export_encoder(folder, name, SIZES, interventions=name == "with")
    return folder


@pytest.fixture(scope="module")
def folders(repository: Path) -> dict[str, BundleFolder]:
    return {name: read_bundle(repository / name / "1") for name in ("without", "with")}


def size(folder: BundleFolder) -> int:
    return sum(each.stat().st_size for each in folder.path.iterdir())


def test_a_bundle_with_interventions_is_hardly_larger(folders: dict[str, BundleFolder]) -> None:
    assert {each.name for each in folders["with"].bundle.graphs} == {"main", "intervened"}
    assert {each.path for each in folders["without"].bundle.files}.isdisjoint({"weights.data"})
    assert size(folders["with"]) <= 1.02 * size(folders["without"])


def test_who_changes_nothing_gets_the_same_bits(repository: Path) -> None:
    with serving(repository) as running, limelight.Client(running.server.address) as client:
        answers = {name: client.attend(name, WORDS, outputs=["logits"]) for name in ("with", "without")}
        one, other = (answers[name].prediction.outputs["logits"].tobytes() for name in ("with", "without"))
        assert one == other
        for each in answers["with"].maps:
            assert each.weights.tobytes() == answers["without"][each.name].weights.tobytes()
        changed = [limelight.scale_keys("encoder.0.self", [2, 3])]
        away = client.predict("with", WORDS, outputs=["logits"], interventions=changed)
        assert np.abs(away.outputs["logits"] - answers["with"].prediction.outputs["logits"]).max() > 1e-4


def mapped(folder: Path) -> set[str]:
    """Files of packed weights below a folder that this process maps."""
    lines = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    return {line[5].strip() for line in lines if len(line) > 5 and f"{folder}/" in line[5]}


def test_all_sessions_of_a_model_map_one_copy(folders: dict[str, BundleFolder], tmp_path: Path) -> None:
    provider = Provider("CPUExecutionProvider", 2, 2, cores=2)
    sessions = {name: open_sessions(folder, provider, saved=tmp_path / name) for name, folder in folders.items()}
    packed = {name: tmp_path / name / "weights.bin" for name in folders}
    assert mapped(tmp_path / "with") == {str(packed["with"])}
    assert packed["with"].stat().st_size <= 1.02 * packed["without"].stat().st_size
    # Changed rows get by with one session: a second would double what interventions add to each start.
    assert {name: each.is_wide for name, each in sessions["with"].items()} == {"main": True, "intervened": False}
    feeds = {"token_ids": np.arange(1, 40)[None], "token_mask": np.ones((1, 39), bool)}
    every = [session for of_model in sessions.values() for session in of_model.values()]
    found = [each.run(["logits"], feeds, wide=wide)[0] for each in every for wide in (False, True)]
    assert len(found) == 6 and all(np.allclose(each, found[0], atol=1e-5) for each in found)
