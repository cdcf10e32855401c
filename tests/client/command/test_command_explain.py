"""`limelight explain`, and `limelight replay` of what it recorded."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import limelight
from limelight import cli
from limelight.v1 import service_pb2, values_pb2
from tests.client.command.people import Run, in_terminal, without_colours
from tests.client.served import DOCUMENT, TEXT, headline, tiny, words
from tests.kit.forwarder import Forwarder


def test_a_pipe_gets_the_text_twice_with_numbers_the_largest_and_one_sentence(run: Run, client: limelight.Client):
    why = client.explain("tiny", TEXT)
    status, output, errors = run("explain", "tiny", TEXT)
    assert (status, errors) == (0, "") and "\x1b" not in output
    lines = output.splitlines()
    assert lines[0] == f"tiny version 1: {headline(tiny())}"
    assert lines[2:5] == ["attention · share, mean of 3 maps", "words(share)", words(TEXT.split(), why["attention"])]
    assert lines[6] == f"erase · change of the log-probability of {why.target.label}"
    assert lines[8] == words(TEXT.split(), why["erase"])
    order = np.argsort(-abs(why["erase"]))
    assert lines[10].split() == ["attention", "erase"]
    shown = [f"{TEXT.split()[at]} {why['attention'][at]:.4f} {why['erase'][at]:+.4f}" for at in order]
    assert [" ".join(each.split()) for each in lines[11:14]] == shown
    assert lines[14] == f"log-probability of {why.target.label}: {why.target.score:.4g}, from 4 rows"
    assert lines[15:] == [why.sentence]


def test_a_terminal_shades_the_text_with_colours_for_and_against(server: Forwarder):
    seen = in_terminal("explain", "tiny", "the cat sat on a mat .")
    assert "\x1b[" in seen and "the cat sat on a mat ." in without_colours(seen)
    assert re.search(r"^\d[\d.e-]* +-\d[\d.e-]*$", without_colours(seen), re.M), "the scale goes from gains to losses"


def test_json_is_what_python_has(run: Run, client: limelight.Client):
    document = json.loads(run("explain", "paper", DOCUMENT, "--unit", "sentence", "--json")[1])
    why = client.explain("paper", DOCUMENT, units="sentences").to_dict()
    assert document["units"] == why["units"] and document["sentence"] == why["sentence"]
    assert document["ways"][1]["values"] == pytest.approx(why["ways"][1]["values"], abs=1e-5)


def test_pictures_pairs_documents_and_generations_are_explained(run: Run, picture: Path, tmp_path: Path):
    output = run("explain", "glance", picture, "--unit-size", "2")[1]
    assert "share of each of 2 x 2 patches" in output and "r0c1" in output
    png = tmp_path / "made" / "why.png"
    assert run("explain", "asked", picture, "-i", "question=the cat", "--save", png)[1].endswith(f"{png}\n")
    with Image.open(png) as opened:
        assert opened.width > 600, "cells over the picture, and the words"
    output = run("explain", "pair", "the cat", "a dog ran")[1]
    assert "pair.first" in output and "pair.second" in output
    output = run("explain", "echo", TEXT, "--for", "a mat", "--entry", "0")[1]
    assert "log-probability of a at 0" in output
    page = tmp_path / "why.html"
    assert run("explain", "paper", DOCUMENT, "--unit", "sentence", "--save", page)[0] == 0
    assert "the cat dog ." in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("model", "given", "wanted"),
    [
        ("tiny", ("--for", "lively"), {"label": "lively"}),
        ("echo", ("--for", "a mat", "--entry", "-1"), {"text": "a mat", "entry": -1}),
        ("report", ("--result", "size", "--for", "width"), {"result": "size", "label": "width"}),
        ("report", ("--result", "place", "--for", "0:3"), {"result": "place", "span": {"start": 0, "end": 3}}),
        ("report", ("--result", "words", "--entry", "1"), {"result": "words", "entry": 1}),
    ],
)
def test_a_target_is_of_the_kind_of_its_result(
    run: Run, server: Forwarder, model: str, given: tuple[str, ...], wanted: dict[str, Any]
):
    assert run("explain", model, TEXT, *given)[0] == 0
    assert server.requests[-1].target == service_pb2.ExplainTarget(**wanted)
    assert run("explain", "report", TEXT, "--result", "vector", "--for", "a dog")[0] == 0
    assert server.requests[-1].target.similar_to.inputs["text"].text == "a dog"


def test_other_choices_go_onto_the_wire(run: Run, server: Forwarder):
    ways = ("--way", "erase", "--way", "erase-others", "--way", "attention")
    run("explain", "tiny", TEXT, *ways, "--map", "pool", "--group", "x=4:7", "--group", "y=#0", "--truncate")
    asked = server.requests[-1]
    assert list(asked.ways) == [service_pb2.WAY_ERASE, service_pb2.WAY_ERASE_OTHERS, service_pb2.WAY_ATTENTION]
    assert asked.selections[0].names == ["pool"] and asked.truncate
    span = values_pb2.TextSpan(start=4, end=7)
    assert list(asked.units.groups) == [
        values_pb2.Group(name="x", spans=[span]),
        values_pb2.Group(name="y", indices=[0]),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--save", "why.gif"), "--save writes .png, .html and .npz files, not 'why.gif'"),
        (("--hash-only",), "--hash-only is for --record"),
        (("--group", "x=0:3", "--unit", "word"), "--group gives the units"),
        (("--unit", "verse"), "'verse' is not one of 'word', 'sentence'"),
        (("--for", "joyful"), "joyful"),
        (("--way", "look-away"), "WAY_LOOK_AWAY"),
    ],
)
def test_what_cannot_be_asked_gets_one_line(run: Run, given: tuple[str, ...], said: str):
    status, output, errors = run("explain", "tiny", TEXT, *given)
    assert status in (1, 2) and output == "" and said in errors and errors.count("\n") == 1


@pytest.fixture
def record(run: Run, tmp_path: Path) -> Path:
    """A record of an explanation."""
    file = tmp_path / "why.json"
    assert run("explain", "tiny", TEXT, "--record", file)[1].endswith(f"{file}\n")
    return file


def test_a_record_holds_what_made_an_explanation_and_comes_out_again(run: Run, record: Path, client: limelight.Client):
    document = json.loads(record.read_text(encoding="utf-8"))
    assert document["format"] == 1 and document["model"]["bundle_digest"] == client.model("tiny").bundle_digest
    assert document["request"]["instances"] == [{"inputs": {"text": {"text": TEXT}}}]
    assert document["explanation"]["units"]["labels"] == TEXT.split()
    status, output, _ = run("replay", record)
    digest = document["model"]["bundle_digest"][:12]
    assert status == 0 and output.startswith(f"tiny version 1, digest {digest}\nholds: no number differs by more than ")
    assert json.loads(run("replay", record, "--json")[1])["holds"]


@pytest.mark.parametrize(
    ("place", "value", "status", "said"),
    [
        ("model bundle_digest", "0" * 64, 0, "digest changed: was 000000000000, is "),
        ("explanation ways 1 values 1", 7.5, 1, "does not hold: erase of 'cat' was 7.5, is "),
        ("explanation target label", "joyful", 1, 'does not hold: target ["mood", "joyful"'),
        ("explanation units labels 0", "a", 1, "does not hold: units "),
        ("explanation ways", [], 1, "does not hold: ways "),
    ],
)
def test_what_is_another_than_recorded_is_named(run: Run, record: Path, place: str, value: Any, status: int, said: str):
    document = json.loads(record.read_text(encoding="utf-8"))
    *path, last = (int(each) if each.isdigit() else each for each in place.split())
    inside: Any = document
    for each in path:
        inside = inside[each]
    inside[last] = value
    record.write_text(json.dumps(document), encoding="utf-8")
    found, output, errors = run("replay", record)
    assert found == status and said in output and errors == ""
    assert json.loads(run("replay", record, "--json")[1])["holds"] == (status == 0)


@pytest.mark.parametrize("model", ["tiny", "echo"])
def test_a_record_may_hold_the_hash_of_the_input_alone(run: Run, tmp_path: Path, model: str):
    file, answer = tmp_path / "why.json", json.loads(run("predict", model, TEXT, "--json")[1])
    assert run("explain", model, TEXT, "--record", file, "--hash-only", "--json")[0] == 0
    kept = file.read_text(encoding="utf-8")
    assert TEXT not in kept and '"cat"' not in kept and str(answer["text"]) not in kept, "nor what may quote it"
    assert "has the hash of its input alone: give the input" in run("replay", file)[2]
    assert run("replay", file, TEXT)[0] == 0
    status, _, errors = run("replay", file, "the dog sat")
    assert status == 1 and "the input is not the recorded one" in errors


EMPTY: dict[str, Any] = {"format": 1, "model": 0, "input": 0, "request": {}, "explanation": {}}


@pytest.mark.parametrize(
    "damage", ["", "[]", "{}", *(json.dumps({**EMPTY, **each}) for each in ({}, {"format": 2}, {"request": {"x": 1}}))]
)
def test_what_is_no_record_gets_one_line(run: Run, tmp_path: Path, damage: str):
    file = tmp_path / "why.json"
    file.write_text(damage)
    status, output, errors = run("replay", file)
    assert status == 1 and output == "" and errors.startswith(f"limelight: {file} cannot be replayed: ")
    assert errors.count("\n") == 1


def test_a_picture_is_replayed_from_its_bytes(run: Run, picture: Path, tmp_path: Path):
    assert run("explain", "glance", picture, "--record", tmp_path / "why.json")[0] == 0
    assert run("replay", tmp_path / "why.json")[0] == 0
    assert cli.main(["replay", str(tmp_path / "none.json")]) == 1
