"""`limelight tokenize`: a line for each token."""

import json

from tests.client.command.people import Run
from tests.client.served import TEXT


def test_tokens_are_lines_with_ids_and_places(run: Run):
    assert run("tokenize", "tiny", TEXT) == (
        0,
        "      4        0:3  'the'\n      5        4:7  'cat'\n      6       8:11  'sat'\n(3 tokens)\n",
        "",
    )
    output = run("tokenize", "echo", "the", "--input", "target=a dog")[1]
    shown = [line.split()[-1] for line in output.splitlines()]
    assert shown == ["tokens:", "'the'", "target:", "'a'", "'dog'", "tokens)"]
    assert run("tokenize", "asked", "is it")[1].endswith("(2 tokens)\n"), "the image is left out"
    assert run("tokenize", "tiny", "cat " * 1100, "--truncate")[1].endswith("(1024 tokens, truncated)\n")
    assert run("tokenize", "tiny", "")[0] != 0
    assert "reads no text" in run("tokenize", "glance", "x")[2]


def test_json_has_the_columns(run: Run):
    found = json.loads(run("tokenize", "tiny", TEXT, "--json")[1])
    assert found["truncated"] is False
    assert found["label_sets"]["tokens"]["offsets"] == [[0, 3], [4, 7], [8, 11]]


def test_a_chat_is_cut_as_it_is_sent(run: Run):
    output = run("tokenize", "tiny", TEXT, "--chat", "chatml")[1]
    assert "'<|im_start|>user'" in output and "'<|im_start|>assistant'" in output
