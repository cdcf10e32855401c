"""`limelight bench --protocol oip` measures a server of the Open Inference Protocol."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limelight import cli
from limelight.cli.bench import open_inference_pb2 as pb
from limelight.cli.bench.oip import infer_requests
from limelight.cli.bench.protocols import Question
from tests.kit.serving import Running


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
    ("value", "rows", "shape"), [([1, 2, 3], 1, [1, 3]), ([1, 2, 3], 2, [2, 3]), ([[4, 5], [6, 7]], 1, [2, 2])]
)
def test_numbers_are_sent_as_rows_or_as_the_whole_tensor(
    tmp_path: Path, value: object, rows: int, shape: list[int]
) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text(json.dumps({"ids": value}))
    metadata = pb.ModelMetadataResponse(name="other")
    metadata.inputs.add(name="ids", datatype="INT64", shape=[-1, -1])
    (request,) = infer_requests(metadata, Question(model="other", version=0, rows=rows, file=file))
    assert [(each.name, each.datatype, list(each.shape)) for each in request.inputs] == [("ids", "INT64", shape)]
    expected = np.broadcast_to(np.array(value), shape)
    np.testing.assert_array_equal(np.frombuffer(request.raw_input_contents[0], "<i8").reshape(shape), expected)


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
