"""`limelight attend --json`, for programs."""

import json
from pathlib import Path

from tests.client.command.people import Run


def test_json_is_complete_and_its_indices_are_of_whole_label_sets(run: Run):
    document = json.loads(run("attend", "han", "It rains. We stay", "--json")[1])
    assert document["prediction"]["label"] == "networking"
    word, sentence = document["maps"]
    assert word["axes"] == ["head", "edge"]
    assert word["shape"] == [1, 4]
    assert word["edges"] == {"query_index": [0, 0, 1, 1], "key_index": [0, 1, 2, 3]}
    assert (sentence["edges"], sentence["axes"]) == (None, ["head", "query", "key"])
    label_sets = document["prediction"]["label_sets"]
    words = label_sets[word["key"]]
    assert words["labels"] == ["It", "rains", "We", "stay"]
    assert words["offsets"][3] == [13, 17]
    assert (words["ids"], words["inputs"]) == ([2, 5, 2, 4], ["document"] * 4)
    assert (words["parent"], words["parents"]) == ("sentences", [0, 0, 1, 1])
    assert label_sets["sentences"]["labels"] == ["It rains", "We stay"]
    assert (word["quantity"], word["heads"], word["head_reduction"], word["left_out"]) == ("weights", [0], None, None)


def test_json_carries_seed_results_grid_and_other_sequences(run: Run, picture: Path):
    document = json.loads(run("attend", "echo", "guten tag", "--sequences", "2", "--json")[1])
    (other,) = document["other_sequences"]
    assert other["sequence"] == 1
    assert list(other["label_sets"]) == ["output"], "what it shares stands in the prediction, once"
    assert other["maps"][0]["shape"] == [1, 2, 2]
    assert document["prediction"]["results"]["text"]["sequences"][1]["text"] == "guten"
    patches = json.loads(run("attend", "vit", picture, "--json")[1])["prediction"]["label_sets"]["patches"]
    assert patches["grid"]["region"] == {"left": 0, "top": 0, "right": 8, "bottom": 8}
    results = json.loads(run("predict", "weather", "Bern is wet", "--json", "--seed", "4")[1])["results"]
    assert {name: each["kind"] for name, each in results.items()} == {
        "forecast": "regression",
        "words": "tagging",
        "place": "spans",
        "vector": "embedding",
    }
    assert results["forecast"]["numbers"][0] == {"name": "temperature", "value": 21.5, "unit": "°C"}
    assert results["words"]["names"][0] == ["LONG", "SHORT"]
    assert results["vector"]["vector"] == [1, 2]
