"""`limelight attend --json`, for programs."""

import json
from pathlib import Path

import pytest

from tests.client.command.people import Run
from tests.client.served import DOCUMENT, SENTENCES, TEXT, label, paper, ranked, tiny
from tests.kit import bundles
from tests.kit.forwarder import Forwarder


def test_json_is_complete_and_its_indices_are_of_whole_label_sets(run: Run):
    document = json.loads(run("attend", "paper", DOCUMENT, "--json")[1])
    assert document["prediction"]["label"] == label(paper())
    word, sentence = document["maps"]
    assert word["axes"] == ["head", "edge"]
    assert word["shape"] == [1, 8]
    assert word["edges"] == {"query_index": [0] * 4 + [1] * 4, "key_index": list(range(8))}
    assert (sentence["edges"], sentence["axes"]) == (None, ["head", "query", "key"])
    label_sets = document["prediction"]["label_sets"]
    words = label_sets[word["key"]]
    assert words["labels"] == DOCUMENT.split()
    assert words["offsets"][6] == [DOCUMENT.index("mat"), DOCUMENT.index("mat") + 3]
    assert (words["ids"], words["inputs"]) == (bundles.ids_of(DOCUMENT).tolist(), ["text"] * 8)
    assert (words["parent"], words["parents"]) == ("sentences", [0] * 4 + [1] * 4)
    assert label_sets["sentences"]["labels"] == list(SENTENCES)
    assert (word["quantity"], word["heads"], word["head_reduction"], word["left_out"]) == ("weights", [0], None, None)


def test_json_carries_seed_results_grid_and_other_sequences(run: Run, picture: Path, server: Forwarder):
    document = json.loads(run("attend", "echo", TEXT, "--sequences", "2", "--json")[1])
    (other,), (sent,) = document["other_sequences"], server.answers[-1].results[0].other_sequences
    assert other["sequence"] == 1
    assert list(other["label_sets"]) == ["output", "input"], "what it shares stands in the prediction, once"
    assert other["maps"][0]["shape"] == list(sent.maps[0].weights.shape)
    best = server.answers[-1].results[0].prediction.results[0].sequences.sequences
    assert document["prediction"]["results"]["words"]["sequences"][1]["text"] == best[1].text
    patches = json.loads(run("attend", "glance", picture, "--json")[1])["prediction"]["label_sets"]["patches"]
    assert patches["grid"]["region"] == {"left": 0, "top": 0, "right": 8, "bottom": 8}
    assert run("predict", "asked", picture, "is it?", "--json")[1].startswith("{"), "and nothing else"
    results = json.loads(run("predict", "report", TEXT, "--json", "--seed", "4")[1])["results"]
    kinds = {"words": "tagging", "size": "regression", "place": "spans", "vector": "embedding"}
    assert {name: each["kind"] for name, each in results.items()} == kinds
    expected = tiny().outputs
    width = pytest.approx(expected["logits"][0], rel=1e-4)
    assert results["size"]["numbers"][0] == {"name": "width", "value": width, "unit": "px"}
    assert results["words"]["names"][0] == [name for name, _ in ranked(expected["tags"][0])]
    assert results["vector"]["vector"] == pytest.approx(expected["logits"].tolist(), rel=1e-4)
