"""Any mechanism from a file of examples to a socket, as it is typed: train, export, serve."""

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import limelight
from limelight import cli


def lines(task: str) -> str:
    """Examples that one word decides, in the form of a task."""
    chance = random.Random(0)
    made = []
    for number in range(60):
        label, word = ("warm", "sun") if number % 2 else ("cold", "snow")
        words = chance.choices("the a day was long and we went home".split(), k=6)
        filled = " ".join([*words[:3], word, *words[3:]])
        fields = {
            "sentence": (label, filled),
            "pair": (label, " ".join(words), filled),
            "aspect": (label, " ".join(words[:3]), word, " ".join(words[3:])),
            "document": (label, f"{' '.join(words)}. {filled}."),
            "distances": (label, filled, "2 3 0 3 4 3 6"),
            "variables": (label, filled, f"{number % 3} 0.5"),
        }
        made.append("\t".join(fields[task]) + "\n")
    return "".join(made)


@pytest.mark.parametrize(
    ("mechanism", "task"),
    [
        ("hard", "sentence"),
        ("multi-hop, shared weights", "sentence"),
        ("interactive co-attention", "pair"),
        ("rotatory attention, repeated", "aspect"),
        ("hierarchical", "document"),
        ("distance-aware", "distances"),
        ("basic query of auxiliary variables", "variables"),
    ],
)
def test_every_task_trains_and_is_exported(mechanism: str, task: str, tmp_path: Path) -> None:
    """Those that draw, and those whose hops share their weights, among them."""
    data, run, repository = tmp_path / "data.tsv", tmp_path / "run", tmp_path / "repository"
    data.write_text(lines(task))
    train = ["train", "mechanism", "--mechanism", mechanism, "--data", str(data), "--out", str(run), "--epochs", "1"]
    assert cli.main(train) == 0
    assert cli.main(["export", str(run), "--repository", str(repository)]) == 0
    (name,) = (each.name for each in repository.iterdir())
    assert re.fullmatch(r"[a-z0-9-]+", name)


def test_a_trained_mechanism_is_served_with_its_weights(tmp_path: Path) -> None:
    data, run, repository = tmp_path / "data.tsv", tmp_path / "run", tmp_path / "repository"
    data.write_text(lines("sentence"))
    options = ["--mechanism", "sparsemax", "--name", "weather", "--data-name", "made up", "--epochs", "8"]
    assert cli.main(["train", "mechanism", "--data", str(data), "--out", str(run), "--batch-size", "8", *options]) == 0
    assert cli.main(["export", str(run), "--repository", str(repository)]) == 0
    command = [sys.executable, "-m", "limelight.cli", "serve", "--repository", str(repository), "--port", "0"]
    server = subprocess.Popen(
        [*command, "--metrics-port", "0", "--provider", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"serving on (127\.0\.0\.1:\d+)", server.stdout.readline())
        assert found
        with limelight.Client(found[1], timeout=60) as client:
            assert client.model("weather").training_data.name == "made up"
            answer = client.attend("weather", {"text": "we went home and the sun was long"})
            assert answer.prediction.label == "warm"
            assert answer["attention"].weights.sum() == pytest.approx(1, abs=1e-5)
    finally:
        server.kill()
        server.communicate()
