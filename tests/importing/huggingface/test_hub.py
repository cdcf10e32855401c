"""Checkpoints of a hub: what `huggingface_hub`, as it is, downloads of them, and what is refused in one sentence."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from limelight_bundle.reader import read_bundle
from tests.importing.huggingface.checkpoints import change_config
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.hub import Hub, running_hub
from tests.kit.serving import eventually

OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
WANTED = {"config.json", "tokenizer.json", "tokenizer_config.json", "README.md", "model.safetensors"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = ENCODERS["bert"].write(tmp_path_factory.mktemp("hub") / "small", num_hidden_layers=1)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    (folder / "onnx").mkdir()
    for other in ("pytorch_model.bin", "modeling.py", "model.fp16.safetensors", "onnx/config.json"):
        (folder / other).write_text("1 / 0")
    with running_hub() as running:
        running.publish("org/Small", folder, "v1")
        running.gated["org/gated"] = "hf_sesame"
        running.publish("org/gated", folder)
        running.claimed["org/vast"] = 2**60
        running.publish("org/vast", folder)
        change_config(folder, model_type="swin")
        running.publish("org/swin", folder)
        (folder / "model.safetensors").write_bytes(b"damaged" * 100)
        change_config(folder, model_type="bert")
        running.publish("org/damaged", folder)
        running.renamed["old/damaged"] = "org/damaged"
        (folder / "model.safetensors").unlink()
        running.publish("org/pickled", folder)
        (folder / "adapter_config.json").write_text("{}")
        running.publish("org/adapter", folder)
        yield running


@pytest.fixture
def surroundings(hub: Hub, tmp_path: Path) -> dict[str, str]:
    """The variables of somebody for whom that hub is the Hub; what it was asked for is forgotten."""
    hub.asked.clear()
    kept = {name: value for name, value in os.environ.items() if name not in OFFLINE}
    return kept | {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home")}


def importing(checkpoint: str, folder: Path, environment: dict[str, str], *options: str) -> subprocess.Popen[str]:
    """Begin an import in a folder."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "limelight.cli",
        "import",
        "hf",
        checkpoint,
        "--repository",
        "models",
        *options,
    ]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for its status and what it printed, while its standard input stays open."""
    with process:
        assert process.stdout and process.stderr
        output, errors = process.stdout.read(), process.stderr.read()
        return process.wait(), output, errors


def refused(checkpoint: str, folder: Path, environment: dict[str, str]) -> str:
    """Import something that cannot be: the one sentence."""
    status, output, errors = ended(importing(checkpoint, folder, environment))
    assert (status, output) == (1, ""), errors
    *_, line = errors.splitlines()
    assert line.startswith("limelight: ") and "Traceback" not in errors
    return line


def test_a_repository_is_downloaded_once_and_the_bundle_names_it_and_its_commit(
    hub: Hub, surroundings: dict[str, str], tmp_path: Path
) -> None:
    commit = hub.revisions["org/Small", "v1"]
    status, output, errors = ended(importing("org/Small@v1", tmp_path, surroundings, "--once"))
    assert status == 0, errors
    place = re.escape(f"downloading org/Small at {commit} from {hub.address} to {tmp_path}/home/hub: 5 files")
    assert re.match(rf"{place}, 0\.\d MB\n", errors)
    assert hub.sent == WANTED
    found = read_bundle(tmp_path / output.strip() / "1").bundle.description
    assert (found.name, found.source.licence) == ("small", "mit")
    assert (found.source.repository, found.source.revision) == ("org/Small", commit)
    hub.asked.clear()
    again = ended(importing(f"org/Small@{commit}", tmp_path, surroundings | {"HF_HUB_OFFLINE": "1"}, "--once"))
    assert again[:2] == (0, output) and not hub.asked
    assert again[2].startswith(f"HF_HUB_OFFLINE is set: org/Small at {commit}, as it was downloaded before")
    nowhere = surroundings | {"HF_ENDPOINT": "http://127.0.0.1:9"}
    unreached = ended(importing("org/Small@v1", tmp_path, nowhere, "--once"))
    assert unreached[:2] == (0, output)
    assert unreached[2].startswith(f"http://127.0.0.1:9 does not answer: org/Small at {commit}, as it was")


@pytest.mark.parametrize(
    ("name", "variables", "message"),
    [
        (
            "org/none",
            {},
            "ADDRESS has no repository org/none, or shows it to others alone; check the name, or set HF_TOKEN",
        ),
        ("a--b/c", {}, "a--b/c names no repository: "),
        ("org/Small@v9", {}, "org/Small has no revision v9; name a branch, a tag or a commit"),
        ("org/gated", {}, "org/gated is gated: ask for access at ADDRESS/org/gated, and set HF_TOKEN to a token"),
        (
            "org/pickled",
            {},
            "weights as pickles alone (pytorch_model.bin), which can run code when they are read, and are",
        ),
        ("org/adapter", {}, "org/adapter is an adapter without its model; merge the two"),
        ("org/vast", {}, "there is no room for org/vast in"),
        ("org/swin", {}, "Swin cannot be imported"),
        ("org/Small", {"HF_ENDPOINT": "http://127.0.0.1:9"}, "cannot be downloaded from http://127.0.0.1:9: "),
        ("org/Small", {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set, and org/Small was not downloaded"),
        ("./org/Small", {}, "org/Small has no config.json; name the folder of a checkpoint, or org/name of a hub"),
    ],
)
def test_what_cannot_be_had_is_one_sentence_before_any_weight_is_downloaded(
    name: str, variables: dict[str, str], message: str, hub: Hub, surroundings: dict[str, str], tmp_path: Path
) -> None:
    found = refused(name, tmp_path, surroundings | variables)
    assert message.replace("ADDRESS", hub.address) in found
    assert not any(each.endswith((".safetensors", ".bin", ".py")) for each in hub.sent)


def test_a_token_opens_what_is_gated(hub: Hub, surroundings: dict[str, str], tmp_path: Path) -> None:
    token = {"HF_TOKEN": "hf_sesame"}
    process = importing("org/gated", tmp_path, surroundings | token)
    assert eventually(lambda: "model.safetensors" in hub.sent)
    process.kill()
    assert "hf_sesame" not in ended(process)[2]


def test_a_folder_of_that_name_is_no_repository(hub: Hub, surroundings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "org" / "Small").mkdir(parents=True)
    assert "org/Small has no config.json" in refused("org/Small", tmp_path, surroundings)
    assert not hub.asked


def test_a_download_that_is_cut_goes_on_and_follows_new_names(
    hub: Hub, surroundings: dict[str, str], tmp_path: Path
) -> None:
    hub.cuts = 100
    message = refused("old/damaged", tmp_path, surroundings)
    assert f"old/damaged cannot be downloaded from {hub.address}: " in message and message.endswith("there is kept")
    hub.asked.clear()
    hub.cuts = 1
    assert "model.safetensors is damaged or not whole" in refused("old/damaged", tmp_path, surroundings)
    assert hub.sent == {"model.safetensors"}
    (whole,) = tmp_path.glob("home/hub/models--old--damaged/snapshots/*/model.safetensors")
    assert whole.read_bytes() == b"damaged" * 100


def test_ctrl_c_ends_a_download_at_once(hub: Hub, surroundings: dict[str, str], tmp_path: Path) -> None:
    hub.open.clear()
    try:
        process = importing("org/damaged", tmp_path, surroundings)
        assert eventually(lambda: "model.safetensors" in hub.sent)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == -signal.SIGINT
        assert "Traceback" not in ended(process)[2]
    finally:
        hub.open.set()
