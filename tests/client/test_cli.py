"""The command line against a server on a real socket: what it prints, to whom, and its exit status."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import typer
from PIL import Image

import limelight
from limelight import cli
from limelight.cli import as_json, commands, render_png
from limelight.cli.render_terminal import plain as plain_text
from limelight.cli.views import Block, Heat, blocks
from limelight.labels import plain, read_label_sets
from limelight.maps import AttentionMap, Edges, read_map
from limelight.tensors import to_tensor
from limelight.v1 import attention_pb2, service_pb2
from tests.client.server import FRESH_SEED, Server

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "limelight.cli"]


@pytest.fixture
def run(server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in this process: exit status, output, errors."""
    monkeypatch.setenv("LIMELIGHT_TARGET", server.target)

    def run(*arguments: object, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        status = cli.main([str(argument) for argument in arguments])
        output, errors = capsys.readouterr()
        return status, output, errors

    return run


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(tmp_path / "digit.png")
    return tmp_path / "digit.png"


def in_terminal(*arguments: str, target: str) -> str:
    """What a person sees: the command's output when it is a terminal."""
    leader, follower = pty.openpty()
    environment = os.environ | {
        "LIMELIGHT_TARGET": target,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "COLUMNS": "100",
    }
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen([*COMMAND, *arguments], stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # how Linux says that the other side has closed
            break
        if not piece:
            break
        seen += piece
    os.close(leader)
    assert process.wait(30) == 0, seen.decode()
    return seen.decode()


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")


# ---- models and predictions


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


# ---- attention


def test_attend_through_a_pipe_is_text_with_numbers(run: Run):
    status, output, _ = run("attend", "scribe", "big cat")
    assert status == 0
    assert "\x1b" not in output
    lines = output.splitlines()
    assert lines[0] == "scribe version 1: long 0.75, short 0.25"
    assert lines[2] == "encoder.0.self · mean of 2 heads · mean over 4 queries"
    # Head 0 is even, 1/4 each; head 1 is 1, 3, 3 and 1 of 8.
    assert lines[3] == "[CLS](0.1875) big(0.3125) cat(0.3125) [SEP](0.1875)"
    assert lines[4].startswith("strongest: big → big 0.31, big → cat 0.31, ")


def test_the_mean_over_heads_is_the_servers_work_unless_heads_are_asked_for(run: Run, server: Server):
    run("attend", "scribe", "x")
    assert server.servicer.requests[-1].attention.reduce_heads == 1
    run("attend", "scribe", "x", "--json")
    assert server.servicer.requests[-1].attention.reduce_heads == 0
    output = run(
        "attend", "scribe", "x", "--head", "0", "--head", "1", "--query", "-1", "--layer", "1", "--map", "encoder.*"
    )[1]
    asked = server.servicer.requests[-1].attention
    assert asked.reduce_heads == 0
    chosen = asked.selections[0]
    assert (list(chosen.heads), list(chosen.queries), list(chosen.layers), list(chosen.names)) == (
        [0, 1],
        [-1],
        [1],
        ["encoder.*"],
    )
    assert "encoder.0.self · head 1\n" in output


def test_other_choices_go_onto_the_wire(run: Run, server: Server):
    run(
        "attend", "scribe", "x", "--top-k", "3", "--encoding", "float16", "--reduce", "max", "--truncate", "--seed", "7"
    )
    request = server.servicer.requests[-1]
    assert (request.attention.top_k, request.attention.encoding, request.attention.reduce_heads) == (3, 2, 2)
    assert (request.truncate, request.instances[0].seed) == (True, 7)
    run("attend", "scribe", "x", "--rollout")
    asked = server.servicer.requests[-1].attention
    assert (asked.rollout, asked.reduce_heads) == (True, 0)
    run("attend", "scribe", "x", "--quantity", "norms", "--pool", "32", "--max-classes", "1")
    request = server.servicer.requests[-1]
    assert (request.attention.quantity, request.attention.pool.size, request.max_classes) == (3, 32, 1)
    run("attend", "echo", "x", "--sequences", "6")
    request = server.servicer.requests[-1]
    assert (request.attention.sequences, request.generation.hypotheses, request.generation.beams) == (6, 6, 6)
    assert request.generation.strategy == service_pb2.STRATEGY_BEAM


@pytest.mark.parametrize(
    ("place", "group"),
    [
        ("0:12", {"spans": [{"start": 0, "end": 12}]}),
        ("second:3:9", {"spans": [{"start": 3, "end": 9, "part": "second"}]}),
        ("2:3:9", {"spans": [{"start": 3, "end": 9, "sentence": 2}]}),
        ("#0:3", {"ranges": [{"start": 0, "end": 3}]}),
        ("#-3:", {"ranges": [{"start": -3, "end": 0}]}),
        ("#4", {"indices": [4]}),
        ("#0,2,-1", {"indices": [0, 2, -1]}),
        ("pair.first", {"inputs": ["pair.first"]}),
    ],
)
def test_a_group_is_a_place_in_the_text_entries_or_an_input(run: Run, server: Server, place: str, group: dict):
    run("attend", "scribe", "x", "--group", f"subject={place}", "--query-group", f"q={place}", "--label-set", "tokens")
    asked = server.servicer.requests[-1].attention
    expected = attention_pb2.Group(name="subject", **group)
    assert asked.key_groups == [attention_pb2.Grouping(label_set="tokens", groups=[expected])]
    assert asked.query_groups[0].groups[0].name == "q"


def test_a_group_that_is_named_twice_is_the_union_of_its_places(run: Run, server: Server):
    run("attend", "scribe", "x", "--group", "a=0:3", "--group", "b=#1", "--group", "a=#-1")
    (grouping,) = server.servicer.requests[-1].attention.key_groups
    assert [each.name for each in grouping.groups] == ["a", "b"]
    assert (grouping.groups[0].spans[0].end, list(grouping.groups[0].indices)) == (3, [-1])


def test_weights_that_top_k_left_out_are_absent_and_their_sum_is_told(run: Run):
    output = run("attend", "echo", "guten tag", "--top-k", "1")[1]
    assert "GUTEN  guten(0.6000) tag  left out: 0.4000\nTAG    guten tag(0.6000)  left out: 0.4000\n" in output
    output = run("attend", "han", "It rains all day. We stay", "--top-k", "1")[1]
    assert "It rains(0.3846) all day  left out: 0.6154\n" in output
    assert "0.6667  It rains all day\n-       We stay\nleft out: 0.3333\n" in output
    # Of four queries each keeps one of four even weights: the first.
    output = run("attend", "scribe", "big cat", "--map", "encoder.0.self", "--head", "0", "--top-k", "2")[1]
    assert "0.0000" not in output


def test_a_grid_cut_by_top_k_has_gaps(run: Run, picture: Path, tmp_path: Path):
    lines = run("attend", "vit", picture, "--map", "encoder.0.self", "--top-k", "2")[1].splitlines()
    assert [line.split() for line in lines[4:8]] == [["-"] * 4] * 3 + [["-", "-", "0.1046", "0.1111"]]
    assert lines[3] == "[class] -"
    # Of the 153 parts of the class token's row, 17 and 16 are here.
    assert lines[8] == "left out: 0.7843"
    path = tmp_path / "a.png"
    assert run("attend", "vit", picture, "--map", "encoder.0.self", "--top-k", "2", "--png", path)[0] == 0
    cells = read(path)[44 : 44 + 224, -240:-16]
    assert (cells == 255).all(axis=2).sum() == 14 * 56 * 56, "what was left out is blank"
    first, covered = (read(path)[44 : 44 + 224, x : x + 224] for x in (16, 16 + 224 + 8))
    assert ((first == covered).all(axis=2)).sum() >= 14 * 56 * 56, "and leaves the picture as it is"


def message(name: str, weights: np.ndarray, **fields: Any) -> attention_pb2.AttentionMap:
    return attention_pb2.AttentionMap(
        name=name,
        query_labels="words",
        key_labels="words",
        heads=range(len(weights)),
        weights=to_tensor(weights),
        **fields,
    )


WORDS = attention_pb2.LabelSet(
    name="words", kind="LABEL_KIND_TOKENS", size=3, texts=["un", "happy", "cats"], starts=[0, 2, 8], ends=[2, 7, 12]
)


def test_scores_are_shown_as_such_and_impossible_places_have_none():
    lowest = np.finfo(np.float32).min
    weights = np.array([[[1.0, lowest, lowest], [3.0, -2.0, lowest], [2.0, 2.0, 4.0]]], np.float32)
    each = read_map(message("m", weights, quantity="QUANTITY_SCORES", signed=True), read_label_sets([WORDS]))
    (block,) = blocks([each])
    assert list(plain_text(block)) == [
        "m · scores · mean over 3 queries",
        "un(2.0000) happy(0.0000) cats(4.0000)",
    ]
    (block,) = blocks([each], each_query=True)
    assert list(plain_text(block))[1:] == [
        "un     un(1.0000) happy cats",
        "happy  un(3.0000) happy(-2.0000) cats",
        "cats   un(2.0000) happy(2.0000) cats(4.0000)",
    ]
    assert block.rows[0].joined == (False, True, False), "two tokens of one word stand together"


def test_a_pooled_map_has_a_row_a_range():
    sets = [
        attention_pb2.LabelSet(
            name=f"words.{side}_ranges", kind="LABEL_KIND_RANGES", size=2, starts=[0, 2], ends=[2, 3], parent="words"
        )
        for side in ("query", "key")
    ]
    sent = message("m", np.array([[[0.5, 0.25], [0.125, 0.75]]], np.float32))
    sent.query_labels, sent.key_labels = "words.query_ranges", "words.key_ranges"
    (block,) = blocks([read_map(sent, read_label_sets([WORDS, *sets]))])
    assert list(plain_text(block)) == [
        "m",
        "un … happy  un … happy(0.5000) cats(0.2500)",
        "cats        un … happy(0.1250) cats(0.7500)",
    ]
    assert block.rows[0].joined == (False, False)


def test_cells_reach_beyond_a_picture_that_was_padded(tmp_path: Path):
    """Of a picture of 100 x 50 the cells cover a square of 100 around its middle: two rows of four lie over it."""
    image = io.BytesIO()
    Image.new("RGB", (100, 50), (0, 0, 255)).save(image, "PNG")
    heat = Heat(np.ones((4, 4), np.float32), (), limelight.Region(0, -25, 100, 75))
    render_png.save([Block("", heat=heat)], tmp_path / "a.png", image=image.getvalue())
    drawn = read(tmp_path / "a.png")[44 : 44 + 224, 16 : 16 + 224]
    assert (drawn[56:168] == [0, 0, 255]).all(), "the picture stands in the middle"
    assert (drawn[:56] == 255).all() and (drawn[168:] == 255).all(), "above and below is what was padded"


def test_a_group_is_shown_by_its_name_and_a_head_by_its_label():
    groups = attention_pb2.LabelSet(
        name="words.key_groups", kind="LABEL_KIND_GROUPS", size=2, texts=["subject", "rest"], parent="words"
    )
    heads = attention_pb2.LabelSet(name="who", kind="LABEL_KIND_REPRESENTATIONS", size=2, texts=["letters", "sounds"])
    weights = np.array([[[0.25, 0.75]] * 3, [[0.5, 0.5]] * 3], np.float32)
    sent = message("m", weights, head_labels="who")
    sent.key_labels = "words.key_groups"
    each = read_map(sent, read_label_sets([WORDS, groups, heads]))
    first, second = blocks([each], each_head=True)
    assert list(plain_text(first)) == [
        "m · letters",
        "un     subject(0.2500) rest(0.7500)",
        "happy  subject(0.2500) rest(0.7500)",
        "cats   subject(0.2500) rest(0.7500)",
    ]
    assert second.title == "m · sounds"


def test_other_sequences_are_shown_after_the_best(run: Run):
    output = run("attend", "echo", "guten tag", "--sequences", "2")[1]
    assert output.startswith("echo version 1: GUTEN TAG\n")
    best, other = output.split("sequence 1: guten · decoder.cross\n")
    assert "TAG    guten(0.4000) tag(0.6000)\n" in best
    assert other.startswith("guten  guten(0.6000) tag(0.4000)\n")


def test_a_document_shows_words_inside_sentences_and_sentences_by_their_own_map(run: Run):
    output = run("attend", "han", "It rains all day. We stay")[1]
    assert "word\n0.6667  It(0.1538) rains(0.3846) all(0.2308) day(0.2308)\n0.3333  We(0.3333) stay(0.6667)\n" in output
    assert "sentence\n0.6667  It rains all day\n0.3333  We stay\n" in output


def test_a_sentence_of_several_lines_is_shown_in_one(run: Run, tmp_path: Path):
    text, path = "It rains\n  all day. We\tstay", tmp_path / "a.png"
    assert "sentence\n0.6667  It rains all day\n0.3333  We stay\n" in run("attend", "han", text)[1]
    assert run("attend", "han", text, "--png", path)[0] == 0


def test_a_generating_model_shows_a_line_an_output_token(run: Run):
    output = run("attend", "echo", "guten tag")[1]
    assert output.startswith("echo version 1: GUTEN TAG\n")
    assert "GUTEN  guten(0.6000) tag(0.4000)\nTAG    guten(0.4000) tag(0.6000)\n</s>   " in output


def test_an_image_is_shown_as_a_grid(run: Run, picture: Path):
    lines = run("attend", "vit", picture)[1].splitlines()
    assert lines[2] == "encoder.0.self · mean of 2 heads · [class]'s row"
    assert lines[3] == "[class] 0.0065"
    grid = np.array([line.split() for line in lines[4:8]], float)
    np.testing.assert_allclose(grid, np.arange(2, 18).reshape(4, 4) / 153, atol=5e-5)


def test_a_terminal_shades_words_by_their_weight(server: Server):
    seen = in_terminal("attend", "han", "It rains all day. We stay", target=server.target)
    assert "It rains all day" in without_colours(seen)
    assert "(0." not in without_colours(seen), "numbers are for pipes"
    brightness = {}
    for word in ("It", "rains", "day", "We", "stay"):
        colour = re.search(rf"48;2;(\d+);(\d+);(\d+)m{word}\x1b", seen)
        assert colour, f"{word} is shaded"
        brightness[word] = sum(map(int, colour.groups()))
    assert brightness["rains"] > brightness["day"] > brightness["It"]
    assert brightness["rains"] == brightness["stay"], "the largest weight of each line is at full strength"
    assert "the line's or grid's largest" in seen


def test_a_terminal_shows_an_image_in_blocks(server: Server, picture: Path):
    seen = in_terminal("attend", "vit", str(picture), "--map", "encoder.1.self", target=server.target)
    assert without_colours(seen).count("████████\n") == 4
    colours = re.findall(r"38;2;(\d+);(\d+);(\d+)m██", seen)
    assert len(set(colours)) == 16
    assert "[class] 0.007" in without_colours(seen)


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


def test_json_of_a_selection_of_edges_counts_in_the_whole_label_set():
    words = plain("words", "tokens", ["a", "b", "c", "d"])
    edges = Edges(np.array([0, 1]), np.array([1, 0]))
    weights = np.array([[0.25, 0.75]], np.float32)
    each = AttentionMap(
        name="m",
        kind="graph",
        heads=(0,),
        weights=weights,
        query=words.take([1, 3]),
        key=words.take([0, 2]),
        edges=edges,
    )
    document = as_json.attention_map(each)
    assert document["edges"] == {"query_index": [1, 3], "key_index": [2, 0]}
    assert (document["queries"], document["keys"]) == ([1, 3], [0, 2])


def read(path: Path) -> np.ndarray:
    picture = Image.open(path)
    assert picture.format == "PNG"
    return np.asarray(picture.convert("RGB")).astype(int)


def test_a_picture_of_words_by_words_has_a_column_a_key(run: Run, tmp_path: Path):
    path = tmp_path / "a.png"
    assert run("attend", "scribe", "hippopotamus cat", "--map", "encoder.1.self", "--png", path) == (0, f"{path}\n", "")
    pixels = read(path)
    # [CLS], hippopotamus, cat, [SEP]: one column is bright lime from top to bottom, and it is the second.
    lime = (pixels == [222, 255, 82]).all(axis=2)
    columns = np.flatnonzero(lime.sum(axis=0) == 4 * 24)
    assert len(columns) == 24
    dark = (pixels == pixels[np.flatnonzero(lime.any(axis=1))[0], columns[0] - 12]).all(axis=2)
    left = np.flatnonzero(dark.sum(axis=0) == 4 * 24)
    assert left.min() == columns[0] - 24, "[CLS] is one cell to the left of the brightest column"
    top = np.flatnonzero(lime.any(axis=1))[0]
    ink = [(pixels[32:top, start : start + 24].sum(axis=2) < 300).sum() for start in (columns[0], columns[0] + 24)]
    assert ink[0] > 2 * ink[1], "the longer word stands over its own column"


def test_a_picture_of_an_image_lays_the_grid_over_it(run: Run, picture: Path, tmp_path: Path):
    path = tmp_path / "a.png"
    assert run("attend", "vit", picture, "--map", "encoder.0.self", "--png", path)[0] == 0
    pixels = read(path)
    assert (pixels == [222, 255, 82]).all(axis=2).sum() == 56 * 56, "one cell of 56 pixels is the brightest"
    grey = (pixels[..., 0] == pixels[..., 1]) & (pixels[..., 1] == pixels[..., 2])
    assert grey[60:240, 16:240].all(), "the picture that was sent stands on the left"


@pytest.mark.parametrize("orientation", [1, 6])
def test_cells_are_laid_over_the_part_of_the_picture_that_they_cover(run: Run, tmp_path: Path, orientation: int):
    """Of a picture of 3 x 1 the model sees the middle third, which is white; the rest is blue. So too where the file
    holds it lying down and its orientation says that it stands upright: then it is 1 x 3.
    """
    pixels = np.zeros((100, 300, 3), np.uint8)
    pixels[..., 2] = 255
    pixels[:, 100:200] = 255
    sent, path = tmp_path / "sent.png", tmp_path / "new" / "folder" / "a.png"
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(sent, exif=exif)
    assert run("attend", "vit", sent, "--map", "encoder.0.self", "--png", path)[0] == 0
    upright = orientation == 6
    # 224 pixels for the cells, three times as many for the picture, which stands first and again under the cells.
    high, wide = (672, 224) if upright else (224, 672)
    drawn = read(path)[16 + 28 : 16 + 28 + high]
    first, second = drawn[:, 16 : 16 + wide], drawn[:, 16 + wide + 8 : 16 + 2 * wide + 8]
    if upright:
        first, second = first.transpose(1, 0, 2), second.transpose(1, 0, 2)
    blue, white = [0, 0, 255], [255, 255, 255]
    inside, outside = slice(240, 432), (slice(0, 208), slice(464, 672))
    assert (first[:, inside] == white).all()
    assert not (second[:, inside] == white).all(axis=2).any(), "the cells cover the middle third, all of it"
    for side in outside:
        assert (first[:, side] == blue).all() and (second[:, side] == blue).all(), "and nothing else"


def test_other_pictures_are_drawn_too(run: Run, tmp_path: Path):
    for name, text in (("han", "It rains. We stay"), ("echo", "guten tag"), ("scribe", "word " * 200)):
        path = tmp_path / f"{name}.png"
        assert run("attend", name, text, "--png", path)[0] == 0
        assert (read(path) == [222, 255, 82]).all(axis=2).any()


# ---- generation


def test_generate_prints_the_text_through_a_pipe(run: Run, server: Server):
    assert run("generate", "echo", "guten tag") == (0, "GUTEN TAG\n", "")
    arguments = ["--strategy", "sample", "--temperature", "0.5", "--top-k", "5", "--top-p", "0.9", "--seed", "3"]
    arguments += ["--max-new-tokens", "1", "--stop", ".", "--stop", "!"]
    assert run("generate", "echo", "guten tag", *arguments)[1] == "GUTEN\n"
    request = server.servicer.requests[-1]
    sent = request.generation
    assert (sent.strategy, sent.temperature, sent.top_k, sent.max_new_tokens, list(sent.stop)) == (
        2,
        0.5,
        5,
        1,
        [".", "!"],
    )
    assert (sent.top_p, request.instance.seed) == (pytest.approx(0.9), 3)
    assert run("generate", "echo", "a b", "--strategy", "beam", "--beams", "3", "--hypotheses", "2")[1] == "A B\na\n"
    run("generate", "echo", "a", "--strategy", "sample", "--temperature", "0", "--top-p", "0")
    sent = server.servicer.requests[-1].generation
    assert sent.HasField("temperature") and sent.HasField("top_p"), "0 is a temperature, and not the lack of one"
    run("generate", "echo", "a")
    sent = server.servicer.requests[-1].generation
    assert not sent.HasField("temperature") and not sent.HasField("top_p")
    assert run("generate", "echo", "a b", "--target-text", "forced words")[1] == "forced words\n"


def test_generate_json_is_one_event_a_line(run: Run):
    events = [json.loads(line) for line in run("generate", "echo", "guten tag", "--json", "--map", "*")[1].splitlines()]
    assert [event["event"] for event in events] == ["start", "token", "token", "token", "end"]
    assert events[0]["seed"] is None
    assert events[1]["text"] == "GUTEN"
    assert events[2]["maps"][0]["queries"] == [1]
    assert events[2]["maps"][0]["weights"] == [[pytest.approx([0.4, 0.6])]]
    assert (events[-1]["text"], events[-1]["sequences"][0]["finish_reason"]) == ("GUTEN TAG", "end")


def test_a_terminal_sees_the_text_come_and_then_the_whole_of_it(server: Server):
    seen = without_colours(in_terminal("generate", "echo", "slow morgen", target=server.target))
    assert "SLOW" in seen.split("SLOW MORGEN")[0]
    assert seen.rstrip().endswith("SLOW MORGEN")


def test_a_sample_says_its_seed_to_people_and_programs(run: Run, server: Server):
    arguments = ["generate", "echo", "guten tag", "--strategy", "sample"]
    seen = without_colours(in_terminal(*arguments, target=server.target))
    assert f"GUTEN TAG\n(drawn at random: --seed {FRESH_SEED} brings it again)" in seen
    assert run(*arguments) == (0, "GUTEN TAG\n", ""), "a pipe gets the text alone"
    assert json.loads(run(*arguments, "--json")[1].splitlines()[0])["seed"] == FRESH_SEED


# ---- load


def test_bench_counts_what_it_sends(run: Run, server: Server):
    measured = json.loads(
        run("bench", "scribe", "--requests", "40", "--warmup", "3", "--concurrency", "5", "--json")[1]
    )
    assert (measured["requests"], measured["errors"], measured["concurrency"], measured["method"]) == (
        40,
        0,
        5,
        "predict",
    )
    assert len(server.servicer.requests) == 1 + 3 + 40
    latency = measured["latency_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"] < 20_000
    assert measured["requests_per_second"] == pytest.approx(40 / measured["seconds"])


def test_bench_runs_for_its_time_with_attention_and_rows(run: Run, server: Server):
    status, output, _ = run("bench", "scribe", "some text", "--seconds", "0.3", "--method", "attend", "--rows", "2")
    assert status == 0
    assert re.match(r"attend scribe, 4 callers, 0\.[3-9] s\n[\d.]+ requests/s of 2 rows \([\d.]+ rows/s\)", output)
    assert "p99" in output
    assert len(server.servicer.requests[-1].instances) == 2


# ---- what goes wrong: one line, and a status that is not 0


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (
            ["predict", "nope", "x"],
            1,
            "limelight: NOT_FOUND: no model 'nope'; there are echo, han, scribe, vit, weather",
        ),
        (["predict", "scribe", "x", "--version", "9"], 1, "limelight: NOT_FOUND: no model 'scribe'; there are .*"),
        (
            ["attend", "scribe", "x", "--map", "no"],
            1,
            r"limelight: .*: attention.selections\[0\].names\[0\]: no map matches 'no'",
        ),
        (["predict", "full", "x"], 1, r"limelight: RESOURCE_EXHAUSTED: .* \(try again in 1.5 s\)"),
        (["generate", "scribe", "x"], 1, "limelight: FAILED_PRECONDITION: model 'scribe' does not generate"),
        (["models", "sleepy", "--timeout", "0.1"], 1, "limelight: DEADLINE_EXCEEDED: .*"),
        (["predict", "scribe"], 2, r"limelight: nothing to send: model 'scribe' takes text \(text\)"),
        (["predict", "scribe", "two", "words"], 2, "limelight: 'words' is one value too many .*"),
        (
            ["predict", "scribe", "-i", "txet=a"],
            2,
            r"limelight: model 'scribe' has no input 'txet'; .* takes text \(text\)",
        ),
        (["predict", "scribe", "-i", "text"], 2, "limelight: --input takes NAME=VALUE, not 'text'"),
        (["predict", "scribe", "--image", "a.png"], 2, "limelight: model 'scribe' has no image input; .*"),
        (["predict", "scribe", "--example", "1"], 2, "limelight: model 'scribe' has 1 examples, from 0"),
        (["predict", "scribe", "@/no/such/file"], 1, "limelight: /no/such/file: No such file or directory"),
        (["predict", "vit", "/no/such.png"], 1, "limelight: /no/such.png: No such file or directory"),
        (
            ["attend", "scribe", "x", "--png", "/dev/null/a.png"],
            1,
            "limelight: /dev/null: (File exists|Not a directory)",
        ),
        (["attend", "scribe", "x", "--group", "0:3"], 2, "limelight: a group is NAME=PLACE, not '0:3'"),
        (["attend", "scribe", "x", "--group", "a=0-3"], 2, "limelight: '0-3' is no place of a group: .*"),
        (["generate", "han", "x", "--target-text", "y"], 2, "limelight: model 'han' takes no forced output"),
        (["predict", "scribe", "x", "--seed", str(2**70)], 1, "limelight: a seed is from 0 to .*"),
        (["bench", "scribe", "--seconds", "1", "-n", "2"], 2, "limelight: either --seconds or --requests"),
        (["bench", "nope", "x"], 1, "limelight: NOT_FOUND: .*"),
        (["frobnicate"], 2, r"limelight: No such command 'frobnicate' \(see 'limelight --help'\)"),
        (
            ["predict", "--frobnicate"],
            2,
            r"limelight: No such option: --frobnicate.* \(see 'limelight predict --help'\)",
        ),
        (["predict"], 2, r"limelight: Missing argument 'MODEL' \(see 'limelight predict --help'\)"),
        (["attend", "scribe", "x", "--encoding", "float8"], 2, "limelight: Invalid value for '--encoding': .*"),
        (["models", "--timeout", "0"], 2, "limelight: Invalid value for '--timeout': .*"),
    ],
)
def test_an_error_is_one_line(run: Run, arguments: list[str], status: int, line: str):
    found, output, errors = run(*arguments)
    assert (found, output) == (status, "")
    assert re.fullmatch(line + "\n", errors), errors


def test_text_that_is_not_utf8_is_an_error(run: Run):
    status, _, errors = run("predict", "scribe", "-", stdin=b"\xff\xfe")
    assert status == 1
    assert re.fullmatch("limelight: .*utf-8.*\n", errors)


@pytest.mark.parametrize("command", [["models"], ["predict", "scribe", "x"], ["bench", "scribe", "x"]])
def test_no_server_is_one_line_naming_it(run: Run, command: list[str]):
    status, output, errors = run(*command, "--target", "127.0.0.1:1")
    assert (status, output) == (1, "")
    assert re.fullmatch(r"limelight: no server answers at 127\.0\.0\.1:1 \(.*\)\n", errors)


def test_bench_ends_with_an_error_where_requests_fail(run: Run, server: Server, monkeypatch: pytest.MonkeyPatch):
    server.servicer.unavailable = 0
    check, seen = server.servicer.check, []

    def fail_late(asked: Any, context: Any) -> None:
        seen.append(asked)
        if len(seen) > 5:
            server.servicer.unavailable = 1
        check(asked, context)

    monkeypatch.setattr(server.servicer, "check", fail_late)
    status, output, errors = run("bench", "scribe", "-n", "10", "--warmup", "1", "-c", "1", "--json")
    measured = json.loads(output)
    assert (status, measured["requests"], measured["errors"]) == (1, 10, 7)
    assert errors == "limelight: 7 of 10 requests failed; the first: UNAVAILABLE: starting\n"


# In a background job SIGINT is ignored, and a process that such a job starts ignores it as well.
HEARS_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from limelight.cli import main
sys.exit(main())
"""


def test_ctrl_c_is_quiet(server: Server):
    environment = os.environ | {"LIMELIGHT_TARGET": server.target}
    for arguments in (["generate", "echo", "slow " * 100], ["bench", "scribe", "--seconds", "60"]):
        before = len(server.servicer.requests)
        with subprocess.Popen(
            [sys.executable, "-c", HEARS_CTRL_C, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        ) as process:
            try:
                while len(server.servicer.requests) < before + 2 and process.poll() is None:
                    time.sleep(0.02)
                process.send_signal(signal.SIGINT)
                output, errors = process.communicate(timeout=60)
            finally:
                process.kill()
        assert (process.returncode, output, errors) == (130, b"", b"")


def test_a_reader_that_leaves_is_not_an_error_to_report(server: Server):
    """In the middle of a long output, and before a short one that is written when the command ends."""
    limelight, environment = " ".join(COMMAND), os.environ | {"LIMELIGHT_TARGET": server.target}
    environment.pop("PYTHONUNBUFFERED", None)
    for command in (
        f"{limelight} generate echo '{'a ' * 1000}' --json --map '*' | head -c 10",
        f"{limelight} models | true",
    ):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, timeout=60)
        assert done.stdout in ('{"event": ', "")
        assert done.stderr == ""


# ---- commands of other packages


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> dict[str, metadata.EntryPoint]:
    """Replaces the installed commands."""
    added: dict[str, metadata.EntryPoint] = {}
    monkeypatch.setattr(commands, "added", lambda: added)
    return added


def greet(name: Annotated[str, typer.Argument()], loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    """Greet somebody."""
    if name == "nobody":
        raise cli.CommandError("there is nobody", status=3)
    if name == "numpy":
        raise ModuleNotFoundError("No module named 'tensorcore'", name="tensorcore")
    print(f"hello {name.upper() if loud else name}")


def test_a_command_is_added_by_its_entry_point(run: Run, entry_points: dict[str, metadata.EntryPoint]):
    entry_points["greet"] = metadata.EntryPoint("greet", "tests.client.test_cli:greet", commands.GROUP)
    assert run("greet", "you", "--loud") == (0, "hello YOU\n", "")
    assert "Greet somebody." in run("greet", "--help")[1]
    assert re.search(r"^ +greet +From tests\.$", run("--help")[1], re.M)
    assert run("greet", "nobody") == (3, "", "limelight: there is nobody\n")
    assert run("greet", "numpy") == (1, "", "limelight: 'greet' needs tensorcore, which is not installed\n")


def test_a_command_that_is_not_installed_says_how_to_install_it(run: Run, entry_points: dict[str, metadata.EntryPoint]):
    for name, extra in (
        ("serve", "serve"),
        ("demo", "serve"),
        ("train", "train"),
        ("export", "train"),
        ("mechanisms", "train"),
    ):
        line = f"limelight: '{name}' is not installed: in a checkout of Limelight, pip install '.[{extra}]'\n"
        assert run(name) == (1, "", line)
    entry_points["serve"] = metadata.EntryPoint("serve", "missing_runtime:serve", commands.GROUP)
    status, _, errors = run("serve", "--help")
    assert status == 1
    assert re.fullmatch(r"limelight: 'serve' needs missing_runtime, which .*, pip install '\.\[serve\]'\n", errors)


def test_what_messages_say_to_install_is_there_to_be_installed():
    """Nothing is on a package index: what helps is this checkout, with an extra that it has."""
    named = {command.extra for command in commands.KNOWN.values() if command.extra}
    application = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert named <= set(application["optional-dependencies"])
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "cli" in client["optional-dependencies"]
    for package in ("client/limelight", "bundle", "models", "export", "service"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            wrong = re.findall(r"(?:install|needs:?) '?limelight(?:-client)?\[", text)
            assert not wrong, f"{path.relative_to(ROOT)} names a package that no index has"


def test_help_names_every_command_and_imports_none():
    program = """
import sys
from limelight.cli import main
status = main(["--help"])
heavy = {"torch", "onnxruntime", "onnx", "grpc", "numpy", "service", "models", "export"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else status)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name in commands.KNOWN:
        assert re.search(rf"^ +{name} ", done.stdout, re.M)


def test_known_commands_lead_somewhere():
    for name, command in commands.KNOWN.items():
        assert bool(command.function) != bool(command.extra), name
        if command.function:
            assert callable(commands.load(name))


def test_without_its_packages_the_command_line_says_what_to_install():
    program = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name in {MISSING}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
from limelight.cli import main
sys.exit(main(ARGUMENTS))
"""
    for missing in ("typer", "rich"):
        code = program.replace("{MISSING}", f"{{{missing!r}}}").replace("ARGUMENTS", "['models']")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 1
        assert re.fullmatch(rf"limelight: .* needs? {missing}.*, pip install '\./client\[cli\]'\n", done.stderr)


def test_the_version_is_that_of_the_distribution(run: Run):
    status, output, _ = run("--version")
    assert status == 0
    assert re.fullmatch(r"limelight \d+\.\d+\.\d+.*\n", output)
