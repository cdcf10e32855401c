"""The command `limelight import`: what it prints."""

import re
from pathlib import Path

import pytest

from limelight.cli import main
from limelight_bundle.reader import read_bundle
from tests.importing.huggingface.checkpoints import TOKENS
from tests.importing.huggingface.encoders import ENCODERS


def test_an_import_says_what_it_wrote_and_how_close_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ENCODERS["distilbert"].write(tmp_path / "Reviews", n_layers=1)
    repository = tmp_path / "repository"
    (tmp_path / "own.txt").write_text("a good film\r\n" * 60 + "\n" + "bad\n" * 40)
    arguments = ["--name", "tone", "--version", "3", "--max-tokens", "50", "--half-weights"]
    arguments += ["--reference", str(tmp_path / "own.txt")]
    assert main(["import", "hf", str(folder), "--repository", str(repository), *arguments]) == 0
    captured = capsys.readouterr()
    first, *lines = captured.out.splitlines()
    assert re.search(r"files checked: \d+\.\d s\ntoken ids compared with transformers': \d+\.\d s\n", captured.err)
    assert first == f"{repository / 'tone' / '3'}: answers and maps equal transformers' eager attention"
    assert [line.split(":")[0].strip() for line in lines[:2]] == ["logits", "encoder.0.self"]
    assert lines[2].startswith("serve it with: ") and str(repository) in lines[2]
    bundle = read_bundle(repository / "tone" / "3").bundle
    description = bundle.description
    assert description.inputs[0].tensors[0].dimensions[0].maximum == 50 < TOKENS
    assert description.citation.year == 2019
    assert {(each.map, each.inputs) for each in bundle.attention_references} == {("encoder.0.self", 100)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["hf", "nowhere", "--repository", "build"],
            "nowhere has no config.json; name the folder of a checkpoint, or org/name of a hub",
        ),
        (["convert-weights", "nowhere", "--out", "build"], "nowhere has no pickled weights"),
    ],
)
def test_a_refusal_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", *arguments]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"limelight: {message}\n")


def test_labels_that_are_no_text_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "labels").write_bytes(b"\xff")
    assert main(["import", "hf", ".", "--repository", "build", "--labels", str(tmp_path / "labels")]) == 1
    assert capsys.readouterr().err.startswith("limelight: the file of --labels is not UTF-8")


def test_wrong_usage_names_the_command_that_explains_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "tensorflow"]) == 2
    assert "limelight import --help" in capsys.readouterr().err
    assert main(["import", "--help"]) == 0
    assert {"hf", "convert-weights"} <= set(capsys.readouterr().out.split())
