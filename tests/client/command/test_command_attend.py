"""`limelight attend`: what is asked for, and what it prints into a pipe and on a terminal."""

import re
from pathlib import Path

import numpy as np
import pytest

from limelight.v1 import attention_pb2, service_pb2
from tests.client.command.people import Run, in_terminal, without_colours
from tests.client.server import Server


def test_attend_through_a_pipe_is_text_with_numbers(run: Run):
    status, output, _ = run("attend", "scribe", "big cat")
    assert status == 0
    assert "\x1b" not in output
    lines = output.splitlines()
    assert lines[0] == "scribe version 1: long 0.75, short 0.25"
    assert lines[2] == "encoder.0.self · mean of 2 heads · mean over 4 queries"
    # Head 0 is even, 1/4 each; head 1 is 1, 3, 3 and 1 of 8.
    assert lines[3] == "tokens(weight)"
    assert lines[4] == "[CLS](0.1875) big(0.3125) cat(0.3125) [SEP](0.1875)"
    assert lines[5].startswith("strongest: big → big 0.31, big → cat 0.31, ")


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
    assert "GUTEN  guten(0.6000) tag(-)  left out: 0.4000\nTAG    guten(-) tag(0.6000)  left out: 0.4000\n" in output
    output = run("attend", "han", "It rains all day. We stay", "--top-k", "1")[1]
    assert "It(-) rains(0.3846) all(-) day(-)  left out: 0.6154\n" in output
    assert "0.6667  It rains all day\n-       We stay\nleft out: 0.3333\n" in output
    # Of four queries each keeps one of four even weights: the first.
    output = run("attend", "scribe", "big cat", "--map", "encoder.0.self", "--head", "0", "--top-k", "2")[1]
    assert "0.0000" not in output


def test_other_sequences_are_shown_after_the_best(run: Run):
    output = run("attend", "echo", "guten tag", "--sequences", "2")[1]
    assert output.startswith("echo version 1: GUTEN TAG 0.22\n")
    best, other = output.split("sequence 1: guten · decoder.cross\n")
    assert "TAG    guten(0.4000) tag(0.6000)\n" in best
    assert "\nguten  guten(0.6000) tag(0.4000)\n" in other


def test_a_document_shows_words_inside_sentences_and_sentences_by_their_own_map(run: Run):
    lines = run("attend", "han", "It rains all day. We stay")[1].splitlines()
    words = ["0.6667  It(0.1538) rains(0.3846) all(0.2308) day(0.2308)", "0.3333  We(0.3333) stay(0.6667)"]
    start = lines.index("word")
    assert lines[start + 1 : start + 4] == ["weight  words(weight)", *words]
    start = lines.index("sentence")
    assert lines[start + 1 : start + 4] == ["weight  sentences", "0.6667  It rains all day", "0.3333  We stay"]


def test_a_sentence_of_several_lines_is_shown_in_one(run: Run, tmp_path: Path):
    text, path = "It rains\n  all day. We\tstay", tmp_path / "a.png"
    assert "sentence\nweight  sentences\n0.6667  It rains all day\n0.3333  We stay\n" in run("attend", "han", text)[1]
    assert run("attend", "han", text, "--png", path)[0] == 0


def test_a_generating_model_shows_a_line_an_output_token(run: Run):
    output = run("attend", "echo", "guten tag")[1]
    assert output.startswith("echo version 1: GUTEN TAG 0.22\n")
    assert "GUTEN  guten(0.6000) tag(0.4000)\nTAG    guten(0.4000) tag(0.6000)\n</s>   " in output


def test_an_image_is_shown_as_a_grid(run: Run, picture: Path):
    lines = run("attend", "vit", picture)[1].splitlines()
    assert lines[2] == "encoder.0.self · mean of 2 heads · [class]'s row"
    assert lines[3] == "weight of each of 4 x 4 patches"
    assert lines[4] == "[class] 0.0065"
    grid = np.array([line.split() for line in lines[5:9]], float)
    np.testing.assert_allclose(grid, np.arange(2, 18).reshape(4, 4) / 153, atol=5e-5)


def test_a_terminal_shades_words_by_their_weight(server: Server):
    seen = in_terminal("attend", "han", "It rains all day. We stay", target=server.target)
    assert "It rains all day" in without_colours(seen)
    assert "(0." not in without_colours(seen), "numbers are for pipes"
    brightness = {}
    for word in ("It", "rains", "day", "We", "stay"):
        colour = re.search(rf"48;2;(\d+);(\d+);(\d+)m{word}\x1b", seen)
        brightness[word] = sum(map(int, colour.groups())) if colour else 0
    # The words' weights times their lines': 2/3 of 0.385 and 1/3 of 2/3; equal weights would be 1/6.
    assert brightness["rains"] > brightness["stay"] > 0
    assert brightness["It"] == brightness["day"] == brightness["We"] == 0, "no colour below equal weights"
    assert re.search(r"^equal 0\.167 +0\.667$", without_colours(seen), re.M), "the scale has numbers"


def test_a_map_that_looks_everywhere_has_no_colour(server: Server):
    # Head 0 of layer 0 attends to every token with the same weight.
    seen = in_terminal("attend", "scribe", "big cat", "--map", "encoder.0.self", "--head", "0", target=server.target)
    seen = seen.partition("head 1")[0]
    assert not re.search(r"48;2;\d+;\d+;\d+m *(big|cat)", seen)
    assert "equal 0.25" in without_colours(seen)


def test_a_light_terminal_gets_darker_colours_for_larger_weights(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLORFGBG", "0;15")
    seen = in_terminal("attend", "han", "It rains all day. We stay", target=server.target)
    rains, stay = (
        sum(map(int, re.search(rf"48;2;(\d+);(\d+);(\d+)m{word}\x1b", seen).groups())) for word in ("rains", "stay")
    )
    assert rains < stay


def test_a_terminal_shows_an_image_in_blocks(server: Server, picture: Path):
    seen = in_terminal("attend", "vit", str(picture), "--map", "encoder.1.self", target=server.target)
    assert without_colours(seen).count("████████\n") == 4
    colours = re.findall(r"38;2;(\d+);(\d+);(\d+)m██", seen)
    assert len(set(colours)) == 9, "those above equal weights, and the others"
    assert "[class] 0.007" in without_colours(seen)


def test_texts_that_were_asked_beside_a_picture_or_each_other_stand_above_the_answer(run: Run, picture: Path):
    lines = run("attend", "vqa", picture, "is it a seven?", "--map", "encoder.0.self")[1].splitlines()
    assert lines[:2] == ["question: is it a seven?", "vqa version 1: 7 0.91, 0 0.01, 1 0.01"]
    lines = run("attend", "vqa", "--example", "0", "--map", "encoder.0.self")[1].splitlines()
    assert lines[0] == "question: is it blue?", "an example's own, on one line"
    assert run("predict", "vqa", "--example", "0", "--max-classes", "1")[1] == "question: is it blue?\n0.9100  7\n"
    said = run("predict", "nli", "It rains. " * 40, "It\x1b[2J pours.")[1].splitlines()
    assert said[0] == f"pair.first: {('It rains. ' * 40)[:299]}…"
    assert said[1:] == ["pair.second: It␣[2J pours.", "0.7500  follows", "0.2500  contradicts"]


def test_a_text_that_is_all_that_was_sent_is_not_repeated(run: Run):
    assert run("predict", "scribe", "big cat")[1] == "0.7500  long\n0.2500  short\n"
    assert run("predict", "echo", "big cat", "-i", "target=A CAT")[1] == "text: big cat\ntarget: A CAT\n0.2231  A CAT\n"


def test_json_is_the_answer_alone(run: Run, picture: Path):
    for command in ("attend", "predict"):
        assert run(command, "vqa", picture, "is it?", "--json")[1].startswith("{")


def test_a_terminal_with_eight_colours_gets_those(server: Server):
    seen = in_terminal("attend", "han", "It rains all day. We stay", target=server.target, TERM="xterm", COLORTERM="")
    assert "48;" not in seen
    colours = {word: re.search(rf"\x1b\[3\d;(4\d)m{word}\x1b", seen) for word in ("It", "rains", "stay")}
    assert [found and found[1] for found in colours.values()] == [None, "44", "44"], "at most equal has none"
    assert set(re.findall(r"(4\d)m  \x1b", seen)) == {"42", "43", "44", "47"}, "the scale has the steps"


def test_long_rows_go_on_below_their_words(server: Server):
    words = " ".join(f"word{place}" for place in range(12))
    seen = without_colours(in_terminal("attend", "echo", words, target=server.target, COLUMNS="40"))
    lines = seen.partition("decoder.cross\n")[2].splitlines()
    start = lines[0].index("word0")
    assert len(lines) > 12 and all(len(line) <= 40 for line in lines)
    for line in lines[:-1]:
        assert line[start:].startswith("word"), "a label or its margin stands before the words"
    assert lines[1][:start].isspace()


def test_a_grid_wider_than_the_terminal_is_cut_and_said_to_be(server: Server, picture: Path):
    for columns, cells in (("8", "████████"), ("7", "████"), ("3", "███")):
        seen = in_terminal(
            "attend", "vit", str(picture), "--map", "encoder.1.self", target=server.target, COLUMNS=columns
        )
        assert without_colours(seen).splitlines().count(cells) == 4, columns
    assert "(1of4columnsdonotfit" in "".join(without_colours(seen).split())
