"""The data folder of HeadVis: its files as the viewer reads them, its figures as their definitions have them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limelight
from limelight.cli import main
from limelight.headvis import METRICS
from tests.kit.bundles import WORDS
from tests.kit.serving import Running

CHANCE = np.random.default_rng(3)
TEXTS = [" ".join(CHANCE.choice(WORDS, CHANCE.integers(2, 9))) for _ in range(40)]


def run(one_process: Running, file: Path, model: str = "tiny") -> int | None:
    out = str(file.parent / "data")
    return main(["headvis", model, "--file", str(file), "--out", out, "--target", one_process.server.address])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": each}) + "\n" for each in TEXTS))
    return path


def expected(weights: Any, tokens: list[str]) -> list[tuple[float, int]]:
    """Sums of the metrics [query, key] and what they are divided by, place by place."""
    size = len(tokens)
    after = [(q, k + 1) for q in range(size) for k in range(q) if tokens[k] == tokens[q]]
    pairs = [(q, k) for q in range(size) for k in range(size)]
    return [
        (sum(weights[q, q] for q in range(size)), size),
        (sum(weights[q, q - 1] for q in range(1, size)), size - 1),
        (-sum(weights[at] * np.log(weights[at]) for at in pairs if weights[at] > 0), size),
        (sum(weights[q, k] * abs(q - k) for q, k in pairs), size),
        (sum(weights[q, k] * (q - k) ** 2 for q, k in pairs), size),
        (sum(weights[at] for at in after), len({q for q, _ in after})),
    ]


def test_figures_and_texts_are_those_of_the_served_model(one_process: Running, file: Path) -> None:
    assert not run(one_process, file)
    data = file.parent / "data"
    config, rows = (json.loads((data / name).read_text()) for name in ("config.json", "scatter_data.json"))
    assert (data / "server_config.json").read_text() == (data / "attributions" / "manifest.json").read_text() == "{}"
    assert config["metrics"] == list(METRICS) and config["heads"] == [[row["layer"], row["head"]] for row in rows]
    with limelight.Client(one_process.server.address) as client:
        names = [each.name for each in client.model("tiny").maps if each.kind == "self"]
        answers = [client.attend("tiny", text) for text in TEXTS]
    layer, head = config["heads"][-1]
    maps = [answer[names[layer]] for answer in answers]
    parts = np.array([expected(each.weights[head].astype(float), list(each.key.labels)) for each in maps]).sum(0)
    means = parts[:, 0] / np.maximum(parts[:, 1], 1)
    means[4] -= means[3] ** 2
    assert [rows[-1][name] for name in METRICS] == pytest.approx(means.tolist(), abs=2e-4)

    shown = json.loads((data / "heads" / config["head_data_pattern"].format(layer=layer, head=head)).read_text())
    strengths = [float(each.weights[head][1:, 1:].max()) for each in maps]
    top = [each["sequence_id"] for each in shown["sequences"] if each["interval"] == config["n_intervals"]]
    assert sorted(top) == sorted(np.argsort(strengths)[-len(top) :].tolist())
    for each in shown["sequences"]:
        found = maps[each["sequence_id"]]
        size = each["seq_len"]
        assert each["tokens"] == list(found.key.labels) and size == len(each["tokens"])
        places = np.array(each["attention_indices"])
        kept = found.weights[head].reshape(-1)[places]
        np.testing.assert_allclose(each["attention_values"], kept, atol=1e-4)
        assert kept.sum() > 0.9 * size and (np.bincount(places // size) <= 8).all()
    assert sum(shown["histogram"]["bin_values"]) == len(TEXTS) == shown["statistics"]["n_samples"]
    mass = sum(sum(each["attention_values"]) for each in shown["sequences"])
    assert sum(shown["qk_distance_histogram"]["bin_values"]) == pytest.approx(mass, abs=1e-2)


def test_what_cannot_be_written_is_told(one_process: Running, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with file.open("a") as more:
        more.write('{"words": 1}\n')
    assert run(one_process, file) == 1 and "line 41: input 'text' is missing" in capsys.readouterr().err
    assert run(one_process, file, "paper") == 1
    assert "limelight: " in capsys.readouterr().err
