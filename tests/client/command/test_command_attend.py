"""`limelight attend`: what is asked for, and what it prints into a pipe and on a terminal."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from limelight.scale import FAINT
from limelight.v1 import attention_pb2, service_pb2, values_pb2
from tests.client import served
from tests.client.command.people import Run, in_terminal, without_colours
from tests.client.served import DOCUMENT, SENTENCES, TEXT
from tests.kit import bundles
from tests.kit.forwarder import Forwarder

TOKENS = TEXT.split()
CROSS = "decoder.0.cross"


def test_attend_through_a_pipe_is_text_with_numbers(run: Run):
    status, output, _ = run("attend", "tiny", TEXT)
    assert status == 0
    assert "\x1b" not in output
    lines, mean = output.splitlines(), served.tiny().maps["encoder.0.self"].weights.mean(axis=0)
    assert lines[0] == f"tiny version 1: {served.headline(served.tiny())}"
    assert lines[2] == "encoder.0.self · mean of 2 heads · mean over 3 queries"
    assert lines[3] == "tokens(weight)"
    assert lines[4] == served.words(TOKENS, mean.mean(axis=0))
    query, key = np.unravel_index(mean.argmax(), mean.shape)
    assert lines[5].startswith(f"strongest: {TOKENS[query]} → {TOKENS[key]} {mean.max():.2f}, ")


def test_the_mean_over_heads_is_the_servers_work_unless_heads_are_asked_for(run: Run, server: Forwarder):
    run("attend", "tiny", "x")
    assert server.requests[-1].attention.reduce_heads == 1
    run("attend", "tiny", "x", "--json")
    assert server.requests[-1].attention.reduce_heads == 0
    output = run(
        "attend", "tiny", "x", "--head", "0", "--head", "1", "--query", "-1", "--layer", "1", "--map", "encoder.*"
    )[1]
    asked = server.requests[-1].attention
    assert asked.reduce_heads == 0
    chosen = asked.selections[0]
    assert (list(chosen.heads), list(chosen.queries), list(chosen.layers), list(chosen.names)) == (
        [0, 1],
        [-1],
        [1],
        ["encoder.*"],
    )
    assert "encoder.1.self · right\n" in output


def test_other_choices_go_onto_the_wire(run: Run, server: Forwarder):
    run("attend", "tiny", "x", "--top-k", "3", "--encoding", "float16", "--reduce", "max", "--truncate", "--seed", "7")
    request = server.requests[-1]
    assert (request.attention.top_k, request.attention.encoding, request.attention.reduce_heads) == (3, 2, 2)
    assert (request.truncate, request.instances[0].seed) == (True, 7)
    run("attend", "tiny", "x", "--rollout")
    asked = server.requests[-1].attention
    assert (asked.rollout, asked.reduce_heads) == (True, 0)
    run("attend", "tiny", "x", "--quantity", "norms", "--pool", "32", "--max-classes", "1")
    request = server.requests[-1]
    assert (request.attention.quantity, request.attention.pool.size, request.max_classes) == (3, 32, 1)
    run("attend", "echo", "x", "--sequences", "6")
    request = server.requests[-1]
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
def test_a_group_is_a_place_in_the_text_entries_or_an_input(run: Run, server: Forwarder, place: str, group: dict):
    run("attend", "tiny", "x", "--group", f"subject={place}", "--query-group", f"q={place}", "--label-set", "tokens")
    asked = server.requests[-1].attention
    expected = values_pb2.Group(name="subject", **group)
    assert asked.key_groups == [attention_pb2.Grouping(label_set="tokens", groups=[expected])]
    assert asked.query_groups[0].groups[0].name == "q"
    run("predict", "tiny", "x", "--look-away", f"encoder.0.self={place}")
    (change,) = server.requests[-1].instances[0].interventions
    assert change.map == "encoder.0.self" and change.key_factor == values_pb2.KeyFactor(keys=values_pb2.Group(**group))


def test_a_group_that_is_named_twice_is_the_union_of_its_places(run: Run, server: Forwarder):
    run("attend", "tiny", "x", "--group", "a=0:3", "--group", "b=#1", "--group", "a=#-1")
    (grouping,) = server.requests[-1].attention.key_groups
    assert [each.name for each in grouping.groups] == ["a", "b"]
    assert (grouping.groups[0].spans[0].end, list(grouping.groups[0].indices)) == (3, [-1])


def step_rows(tokens: Sequence[str], weights: np.ndarray) -> list[str]:
    """The rows of a map over TEXT as a pipe gets them, one for each token put out."""
    width = max(map(len, tokens))
    return [f"{token:<{width}}  {served.words(TOKENS, row)}" for token, row in zip(tokens, weights, strict=True)]


def test_weights_that_top_k_left_out_are_absent_and_their_sum_is_told(run: Run):
    cross = served.echo().maps[CROSS].weights[0]
    best = cross.max(axis=1, keepdims=True)
    output = run("attend", "echo", TEXT, "--map", CROSS, "--top-k", "1")[1]
    shown = step_rows(served.steps(served.echo()), np.where(cross == best, cross, np.nan))
    for row, most in zip(shown, best[:, 0], strict=True):
        assert f"{row}  left out: {1 - most:.4f}\n" in output
    maps, output = served.paper().maps, run("attend", "paper", DOCUMENT, "--top-k", "1")[1]
    shares = maps["sentence"].weights[0, 0]
    for own, inside, sentence in zip(shares, np.split(maps["word"].weights[0], 2), SENTENCES, strict=True):
        is_kept = (inside == inside.max()) & (own == shares.max())
        shown = served.words(sentence.split(), np.where(is_kept, own * inside, np.nan))
        left_out = own * (1 - inside.max()) if is_kept.any() else 0.0
        assert f"{shown}  left out: {left_out:.4f}\n" in output
    lines = [f"{share:.4f}  {SENTENCES[place]}\n" for place, share in enumerate(shares)]
    lines[shares.argmin()] = f"-       {SENTENCES[shares.argmin()]}\n"
    assert f"{''.join(lines)}left out: {shares.min():.4f}\n" in output
    # Of two queries each keeps one of two even weights: the first.
    output = run("attend", "tiny", "big cow", "--map", "encoder.0.self", "--head", "0", "--top-k", "1")[1]
    assert "big(0.5000) cow(-)" in output


def test_other_sequences_are_shown_after_the_best(run: Run, server: Forwarder):
    output = run("attend", "echo", TEXT, "--sequences", "2")[1]
    first, second = server.answers[-1].results[0].prediction.results[0].sequences.sequences
    assert output.startswith(f"echo version 1: {first.text} {np.exp(sum(first.log_probabilities)):.2f}\n")
    best, other = output.split(f"sequence 1: {second.text} · {CROSS}\n")
    for shown, sequence in ((best, first), (other, second)):
        weights = bundles.echo_maps(bundles.ids_of(TEXT), sequence.token_ids)[CROSS].weights[0]
        assert "\n".join(step_rows([bundles.WORDS[token] for token in sequence.token_ids], weights)) in shown


def rows_of() -> tuple[list[str], list[str]]:
    """The rows of words, whose weights are times those of their sentences, and of sentences, as a pipe gets them."""
    maps = served.paper().maps
    inside = np.split(served.nested(), 2)
    shown = list(zip(maps["sentence"].weights[0, 0], SENTENCES, inside, strict=True))
    words = [f"{own:.4f}  {served.words(sentence.split(), shares)}" for own, sentence, shares in shown]
    return words, [f"{own:.4f}  {sentence}" for own, sentence, _ in shown]


def test_a_document_shows_words_inside_sentences_and_sentences_by_their_own_map(run: Run):
    lines, (words, sentences) = run("attend", "paper", DOCUMENT)[1].splitlines(), rows_of()
    start = lines.index("word")
    assert lines[start + 1 : start + 4] == ["weight  words(weight)", *words]
    start = lines.index("sentence")
    assert lines[start + 1 : start + 4] == ["weight  sentences", *sentences]


def test_a_sentence_of_several_lines_is_shown_in_one(run: Run, tmp_path: Path):
    text, path = "the cat\n  dog . sat\ton mat far", tmp_path / "a.png"
    shown = "\n".join(["sentence", "weight  sentences", *rows_of()[1], ""])
    assert shown in run("attend", "paper", text)[1]
    assert run("attend", "paper", text, "--png", path)[0] == 0


def test_a_generating_model_shows_a_line_an_output_token(run: Run):
    output, answer = run("attend", "echo", TEXT)[1], served.echo()
    assert output.startswith(f"echo version 1: {served.said(answer)} {served.probability(answer):.2f}\n")
    assert "\n".join(step_rows(served.steps(answer), answer.maps[CROSS].weights[0])) in output


def test_an_image_is_shown_as_a_grid(run: Run, picture: Path):
    lines, weights = run("attend", "glance", picture)[1].splitlines(), served.looks()
    assert lines[2] == "encoder.0.self · mean of 2 heads · [class]'s row"
    assert lines[3] == "weight of each of 4 x 4 patches"
    assert lines[4] == f"[class] {weights[0]:.4f}"
    grid = np.array([line.split() for line in lines[5:9]], float)
    np.testing.assert_allclose(grid, weights[1:].reshape(4, 4), atol=6e-5)


def brightness(seen: str) -> list[int]:
    """The brightness behind each word of DOCUMENT; 0 for none."""
    found = (re.search(rf"48;2;(\d+);(\d+);(\d+)m{re.escape(word)}\x1b", seen) for word in DOCUMENT.split())
    return [sum(map(int, colour.groups())) if colour else 0 for colour in found]


@pytest.mark.parametrize("background", ["15;0", "0;15"], ids=["dark", "light"])
def test_a_terminal_shades_words_by_their_weight(server: Forwarder, background: str):
    seen, weights = in_terminal("attend", "paper", DOCUMENT, COLORFGBG=background), served.nested()
    assert SENTENCES[0] in without_colours(seen)
    assert "(0." not in without_colours(seen), "numbers are for pipes"
    # The words' weights times their lines'; equal weights would be 1/8.
    found = np.array(brightness(seen))
    assert (found > 0).tolist() == [served.strength(weight, 1 / 8) >= FAINT for weight in weights]
    order = np.argsort(weights)[(found == 0).sum() :]
    steps = np.diff(found[order])
    assert (steps >= 0).all() if background == "15;0" else (steps <= 0).all(), "darker where it is light"
    assert len(set(found)) > 2
    assert re.search(r"^equal 0\.125 +0\.5$", without_colours(seen), re.M), "the scale has numbers"


def test_a_terminal_shows_an_image_in_blocks(server: Forwarder, picture: Path):
    seen = in_terminal("attend", "glance", str(picture), "--map", "encoder.1.self")
    assert without_colours(seen).count("████████\n") == 4
    colours, (leading, *cells) = re.findall(r"38;2;(\d+);(\d+);(\d+)m██", seen), served.looks(1)
    bright = np.array([sum(map(int, each)) for each in colours])[np.argsort(cells)]
    assert (np.diff(bright) >= 0).all() and len(set(bright)) > 2
    assert len(set(bright[np.sort(cells) <= 1 / 17])) == 1, "those up to equal weights"
    assert f"[class] {leading:.3f}" in without_colours(seen)


def test_texts_that_were_asked_beside_a_picture_or_each_other_stand_above_the_answer(run: Run, picture: Path):
    lines = run("attend", "asked", picture, "is it a mat ?", "--map", "encoder.0.self")[1].splitlines()
    answer = bundles.glance_answer(served.PICTURE, "is it a mat ?")
    assert lines[:2] == ["question: is it a mat ?", f"asked version 1: {served.headline(answer)}"]
    lines = run("attend", "asked", "--example", "0", "--map", "encoder.0.self")[1].splitlines()
    assert bundles.QUESTION == "is it\na mat ?" and lines[0] == "question: is it a mat ?", "an example's, on one line"
    best = served.lines(answer).splitlines()[0]
    said = run("predict", "asked", picture, "is it a mat ?", "--max-classes", "1")[1]
    assert said == f"question: is it a mat ?\n{best}\n"
    first, second = "the cat. " * 40, "a\x1b[2J dog."
    said = run("predict", "pair", first, second)[1].splitlines()
    assert said[0] == f"pair.first: {first[:299]}…"
    assert said[1:6] == ["pair.second: a␣[2J dog.", "mood:", *served.lines(served.tiny(first + second)).splitlines()]


def test_a_text_that_is_all_that_was_sent_is_not_repeated(run: Run):
    assert run("predict", "paper", DOCUMENT)[1] == served.lines(served.paper())
    said, ids = "a dog", bundles.ids_of("a dog").tolist()
    steps = (bundles.log_probabilities(bundles.ids_of(TEXT), ids[:place])[ids[place]] for place in range(2))
    shown = f"text: {TEXT}\ntarget: {said}\n{np.exp(sum(steps)):.4f}  {said}\n"
    assert run("predict", "echo", TEXT, "-i", f"target={said}")[1] == shown


def test_a_terminal_with_eight_colours_gets_those(server: Forwarder):
    seen = in_terminal("attend", "paper", DOCUMENT, TERM="xterm", COLORTERM="")
    assert "48;" not in seen
    colours = [re.search(rf"\x1b\[3\d;(4\d)m{re.escape(word)}\x1b", seen) for word in DOCUMENT.split()]
    strengths = [served.strength(weight, 1 / 8) for weight in served.nested()]
    assert [each is None for each in colours] == [each < FAINT for each in strengths], "at most equal has none"
    assert set(re.findall(r"(4\d)m  \x1b", seen)) == {"44", "46", "47"}, "the scale has the steps"


def test_long_rows_go_on_below_their_words(server: Forwarder):
    words = " ".join(f"word{place}" for place in range(12))
    seen = without_colours(in_terminal("attend", "echo", words, "--map", CROSS, COLUMNS="40"))
    lines = seen.partition(f"{CROSS}\n")[2].splitlines()
    start = lines[0].index("word0")
    assert len(lines) > 12 and all(len(line) <= 40 for line in lines)
    for line in lines[:-1]:
        assert line[start:].startswith("word"), "a label or its margin stands before the words"
    assert lines[1][:start].isspace()


def test_a_grid_wider_than_the_terminal_is_cut_and_said_to_be(server: Forwarder, picture: Path):
    for columns, cells in (("7", "████"), ("3", "███")):
        seen = in_terminal("attend", "glance", str(picture), "--map", "encoder.1.self", COLUMNS=columns)
        assert without_colours(seen).splitlines().count(cells) == 4, columns
    assert "(1of4columnsdonotfit" in "".join(without_colours(seen).split())
