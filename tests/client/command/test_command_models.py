"""`limelight models` and `limelight predict` against a server on a real socket."""

import json
import re
from pathlib import Path

import pytest

from tests.client.command.people import Run
from tests.client.server import Server


def test_models_are_listed_for_people_and_programs(run: Run):
    status, output, _ = run("models")
    assert status == 0
    assert re.search(r"^broken +1 +failed: model.onnx is not", output, re.M)
    assert re.search(r"^scribe +1 \(default\) +ready +classification +Scribe$", output, re.M)
    models = json.loads(run("models", "--json")[1])["models"]
    echo = {"name": "echo", "version": 1, "state": "ready", "reason": "", "default": True}
    assert models[1] == echo | {"title": "Echo", "task": "generation"}


def test_one_model_is_described(run: Run):
    output = run("models", "scribe")[1]
    for line in (
        "text",
        "encoder.1.self",
        "classes: short, long (2)",
        "accuracy on held-out: 0.875 (float32: 0.9, majority class: 0.5)",
        "precision: int8",
    ):
        assert line in output
    described = json.loads(run("models", "scribe", "--json")[1])
    assert described["inputs"][0]["kind"] == "text"
    assert described["maps"][0]["heads"] == 2
    assert described["examples"] == 1


def test_predict_prints_every_class_most_probable_first(run: Run):
    assert run("predict", "scribe", "hello world") == (0, "0.7500  long\n0.2500  short\n", "")
    answer = json.loads(run("predict", "scribe", "hello", "--json")[1])
    assert (answer["label"], answer["probability"], answer["provenance"]["version"]) == ("long", 0.75, 1)
    assert answer["outputs"]["logits"] == pytest.approx([0, 1.0986], abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "stdin", "sent"),
    [
        (["scribe", "a text"], "", {"text": "a text"}),
        (["scribe", "-"], "Zoë\n", {"text": "Zoë"}),
        (["scribe", "--input", "text=a=b"], "", {"text": "a=b"}),
        (["scribe", "-i", "text=-"], "in\n", {"text": "in"}),
        (["scribe", "--input", "text=@FILE"], "", {"text": "from a file"}),
        (["scribe", "@FILE"], "", {"text": "from a file"}),
        (["scribe", "--example", "0"], "", {"text": "an example of the model"}),
        (["echo", "a b", "-i", "target=x"], "", {"text": "a b", "target": "x"}),
    ],
)
def test_inputs_come_from_arguments_files_and_standard_input(
    run: Run, server: Server, tmp_path: Path, arguments: list[str], stdin: str, sent: dict[str, str]
):
    (tmp_path / "text.txt").write_text("from a file\n", encoding="utf-8")
    arguments = [each.replace("FILE", str(tmp_path / "text.txt")) for each in arguments]
    assert run("predict", *arguments, stdin=stdin)[0] == 0
    instance = server.servicer.requests[-1].instances[0]
    assert {name: value.text for name, value in instance.inputs.items()} == sent


def test_every_kind_of_result_is_printed_under_its_name(run: Run):
    expected = """forecast:
temperature 21.5 °C
index 3
words:
Bern  LONG 0.75, SHORT 0.25
is    SHORT 0.75, LONG 0.25
wet   SHORT 0.75, LONG 0.25
place:
0.5000  Bern  [0:4]
vector:
1 2
"""
    assert run("predict", "weather", "Bern is wet") == (0, expected, "")
    assert "number: temperature in °C" in run("models", "weather")[1]


def test_classes_can_be_the_best_few_and_a_seed_is_sent(run: Run, server: Server):
    arguments = ["predict", "scribe", "x", "--max-classes", "1", "--seed", str(2**64 - 1)]
    assert run(*arguments) == (0, "0.7500  long\n", "")
    assert server.servicer.requests[-1].instances[0].seed == 2**64 - 1


def test_an_image_is_a_path_an_option_or_standard_input(run: Run, server: Server, picture: Path):
    for arguments in (["vit", picture], ["vit", "--image", picture], ["vit", "-i", f"image=@{picture}"]):
        assert run("predict", *arguments)[0] == 0
        assert server.servicer.requests[-1].instances[0].inputs["image"].image == picture.read_bytes()
    assert run("predict", "vit", "-", stdin=picture.read_bytes())[0] == 0
    assert server.servicer.requests[-1].instances[0].inputs["image"].image == picture.read_bytes()
