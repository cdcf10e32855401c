"""`limelight bench --protocol oip` measures a server of the Open Inference Protocol."""

import json
from pathlib import Path
from typing import Any

import pytest

from limelight import cli
from tests.service.serving import Running


def bench(capsys: pytest.CaptureFixture[str], running: Running, *arguments: object) -> tuple[int, dict[str, Any], str]:
    """Run it: exit status, report, errors."""
    command = ("bench", *arguments, "--protocol", "oip", "--target", running.server.address, "--json", "-")
    status = cli.main([str(each) for each in command])
    output, errors = capsys.readouterr()
    return status, json.loads(output) if output else {}, errors


def test_it_sends_texts_and_asks_for_a_map(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    load = ("--rows", 2, "-n", 10, "-c", 2)
    status, plain, errors = bench(capsys, running, "tiny", "the cat sat", *load)
    assert status == 0, errors
    assert (plain["setup"]["method"], plain["outcome"]["codes"]) == ("ModelInfer", {"OK": 10})
    status, with_map, errors = bench(capsys, running, "tiny", "the cat sat", "--map", "encoder.0.self", *load)
    assert status == 0, errors
    # Two rows of two heads of 3 × 3 float32 weights, at least.
    assert with_map["outcome"]["response_bytes"] - plain["outcome"]["response_bytes"] >= 2 * 2 * 9 * 4


def test_it_sends_an_open_loop_of_a_file(running: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text('{"text": "the cat"}\n"a dog sat"\n')
    status, report, errors = bench(capsys, running, "tiny", "--inputs", file, "--rate", 50, "-n", 10)
    assert status == 0, errors
    assert (report["setup"]["loop"], report["setup"]["inputs"], report["outcome"]["requests"]) == ("open", 2, 10)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "give an INPUT or --inputs FILE: the model takes text (BYTES)"),
        (("a", "--map", "encoder.*"), "by their whole names"),
        (("--input", "words=a"), "has no input 'words'; it takes text"),
        (("a", "--map", "nothing"), "INVALID_ARGUMENT: "),
    ],
)
def test_what_cannot_be_sent_is_refused(
    running: Running, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    status, _, errors = bench(capsys, running, "tiny", *arguments)
    assert status and problem in errors
