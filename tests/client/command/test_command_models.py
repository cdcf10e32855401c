"""`limelight models` and `limelight predict` against a server on a real socket."""

import json
import re
from pathlib import Path

import pytest

from limelight.base.tensors import to_array
from tests.client import served
from tests.client.command.people import Run
from tests.client.served import DOCUMENT
from tests.kit.forwarder import Forwarder


def test_models_are_listed_for_people_and_programs(run: Run):
    status, output, _ = run("models")
    assert status == 0
    assert re.search(r"^broken +1 +failed: .*model.onnx is not", output, re.M)
    assert re.search(r"^tiny +1 \(default\) +ready +classification +A tiny text model$", output, re.M)
    models = {each["name"]: each for each in json.loads(run("models", "--json")[1])["models"]}
    echo = {"name": "echo", "version": 1, "state": "ready", "reason": "", "default": True}
    assert models["echo"] == echo | {"title": "", "task": "generation"}


def test_one_model_is_described(run: Run):
    output = run("models", "tiny")[1] + run("models", "report")[1]
    for line in (
        "text",
        "encoder.1.self",
        "classes: calm, lively, neither (3)",
        "accuracy on held-out: 0.875 (float32: 0.9, majority class: 0.5)",
        "precision: int8",
    ):
        assert line in output
    described = json.loads(run("models", "tiny", "--json")[1])
    assert described["inputs"][0]["kind"] == "text"
    assert described["maps"][0]["heads"] == 2
    assert described["examples"] == 3


def test_predict_prints_every_class_most_probable_first(run: Run):
    expected = served.paper()
    (label, probability), *_ = served.ranked(expected.outputs["logits"])
    assert run("predict", "paper", DOCUMENT) == (0, served.lines(expected), "")
    answer = json.loads(run("predict", "paper", DOCUMENT, "--json")[1])
    assert (answer["label"], answer["provenance"]["version"]) == (label, 1)
    assert answer["probability"] == pytest.approx(probability)
    assert answer["outputs"]["logits"] == pytest.approx(expected.outputs["logits"].tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "stdin", "sent"),
    [
        (["tiny", "a text"], "", {"text": "a text"}),
        (["tiny", "-"], "Zoë\n", {"text": "Zoë"}),
        (["tiny", "--input", "text=a=b"], "", {"text": "a=b"}),
        (["tiny", "-i", "text=-"], "in\n", {"text": "in"}),
        (["tiny", "--input", "text=@FILE"], "", {"text": "from a file"}),
        (["tiny", "@FILE"], "", {"text": "from a file"}),
        (["tiny", "--example", "1"], "", {"text": "the cat sat"}),
        (["echo", "a b", "-i", "target=x"], "", {"text": "a b", "target": "x"}),
    ],
)
def test_inputs_come_from_arguments_files_and_standard_input(
    run: Run, server: Forwarder, tmp_path: Path, arguments: list[str], stdin: str, sent: dict[str, str]
):
    (tmp_path / "text.txt").write_text("from a file\n", encoding="utf-8")
    arguments = [each.replace("FILE", str(tmp_path / "text.txt")) for each in arguments]
    assert run("predict", *arguments, stdin=stdin)[0] == 0
    instance = server.requests[-1].instances[0]
    assert {name: value.text for name, value in instance.inputs.items()} == sent


def test_every_kind_of_result_is_printed_under_its_name(run: Run, server: Forwarder):
    status, output, errors = run("predict", "report", "the cat sat")
    tags, size, spans, vector = server.answers[-1].predictions[0].results
    listed = zip(tags.tagging.labels, (f"{each:.2f}" for each in tags.tagging.probabilities), strict=True)
    shown = [f"{label} {probability}" for label, probability in listed]
    expected = [
        "words:",
        *(f"{word}  {', '.join(shown[3 * place : 3 * place + 3])}" for place, word in enumerate(("the", "cat", "sat"))),
        "size:",
        *(f"{each.name} {each.value:.6g} {each.unit}".rstrip() for each in size.regression.numbers),
        "place:",
        *(f"{each.probability:.4f}  {each.text}  [{each.start}:{each.end}]" for each in spans.spans.spans),
        "vector:",
        " ".join(f"{number:.6g}" for number in to_array(vector.embedding.vector).tolist()),
    ]
    assert (status, output.splitlines(), errors) == (0, expected, "")
    assert "number: width in px" in run("models", "report")[1]


def test_classes_can_be_the_best_few_and_a_seed_is_sent(run: Run, server: Forwarder):
    arguments = ["predict", "paper", DOCUMENT, "--max-classes", "1", "--seed", str(2**64 - 1)]
    assert run(*arguments) == (0, served.lines(served.paper()).splitlines(keepends=True)[0], "")
    assert server.requests[-1].instances[0].seed == 2**64 - 1


def test_an_image_is_a_path_an_option_or_standard_input(run: Run, server: Forwarder, picture: Path):
    for arguments in (["glance", picture], ["glance", "--image", picture], ["glance", "-i", f"image=@{picture}"]):
        assert run("predict", *arguments)[0] == 0
        assert server.requests[-1].instances[0].inputs["image"].image == picture.read_bytes()
    assert run("predict", "glance", "-", stdin=picture.read_bytes())[0] == 0
    assert server.requests[-1].instances[0].inputs["image"].image == picture.read_bytes()
