"""`limelight bench` measures a server by HTTP and by the Open Inference Protocol."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limelight import cli
from limelight.cli.bench import open_inference_pb2 as pb
from limelight.cli.bench.oip import infer_requests
from limelight.cli.bench.protocols import Question
from tests.kit.serving import Running

METHODS = {"http": ("Predict", "Attend"), "oip": ("ModelInfer", "ModelInfer")}
by_both = pytest.mark.parametrize("protocol", METHODS)


def bench(
    capsys: pytest.CaptureFixture[str], protocol: str, target: str, *arguments: object
) -> tuple[int, dict[str, Any], str]:
    """Run it: exit status, report, errors."""
    command = ("bench", *arguments, "--protocol", protocol, "--target", target, "--json", "-")
    status = cli.main([str(each) for each in command])
    output, errors = capsys.readouterr()
    return status, json.loads(output) if output else {}, errors


def target(running: Running, protocol: str) -> str:
    return running.server.http_url.removeprefix("http://") if protocol == "http" else running.server.address


@by_both
def test_it_sends_texts_and_asks_for_a_map(
    two_frontends: Running, capsys: pytest.CaptureFixture[str], protocol: str
) -> None:
    load, where = ("--rows", 2, "-n", 10, "-c", 2), target(two_frontends, protocol)
    status, plain, errors = bench(capsys, protocol, where, "tiny", "the cat sat", *load)
    assert status == 0, errors
    assert (plain["setup"]["method"], plain["outcome"]["codes"]) == (METHODS[protocol][0], {"OK": 10})
    status, with_map, errors = bench(capsys, protocol, where, "tiny", "the cat sat", "--map", "encoder.0.self", *load)
    assert status == 0, errors
    assert with_map["setup"]["method"] == METHODS[protocol][1]
    # Two rows of two heads of 3 × 3 float32 weights, at least.
    assert with_map["outcome"]["response_bytes"] - plain["outcome"]["response_bytes"] >= 2 * 2 * 9 * 4


@by_both
def test_it_sends_an_open_loop_of_a_file_or_of_the_models_example(
    one_process: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path, protocol: str
) -> None:
    (tmp_path / "inputs.jsonl").write_text('{"text": "the cat"}\n"a dog sat"\n')
    given = ("--inputs", tmp_path / "inputs.jsonl") if protocol == "oip" else ()
    status, report, errors = bench(
        capsys, protocol, target(one_process, protocol), "tiny", *given, "--rate", 100, "-n", 20
    )
    assert status == 0, errors
    assert (report["setup"]["loop"], report["outcome"]["codes"]) == ("open", {"OK": 20})
    assert protocol == "http" or report["setup"]["inputs"] == 2


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
    ("protocol", "arguments", "problem"),
    [
        ("http", ("nobody", "a"), "NOT_FOUND: there is no model 'nobody'"),
        ("http", ("tiny", "a", "--map", "nothing"), "INVALID_ARGUMENT: "),
        ("http", ("tiny", "a", "--version", 9), "NOT_FOUND: "),
        ("oip", ("tiny",), "give an INPUT or --inputs FILE: the model takes text (BYTES)"),
        ("oip", ("tiny", "a", "--map", "encoder.*"), "by their whole names"),
        ("oip", ("tiny", "--input", "words=a"), "has no input 'words'; it takes text"),
        ("oip", ("tiny", "a", "--map", "nothing"), "INVALID_ARGUMENT: "),
    ],
)
def test_what_cannot_be_sent_or_is_refused_is_told(
    one_process: Running,
    capsys: pytest.CaptureFixture[str],
    protocol: str,
    arguments: tuple[object, ...],
    problem: str,
) -> None:
    status, _, errors = bench(capsys, protocol, target(one_process, protocol), *arguments)
    assert status and problem in errors


def test_a_server_that_is_not_there_and_a_wrong_target_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = f"127.0.0.1:{listener.getsockname()[1]}"
    assert bench(capsys, "http", gone, "tiny", "a")[2].startswith(f"limelight: no server answers at {gone}")
    assert "takes a --target HOST:PORT" in bench(capsys, "http", "localhost", "tiny", "a")[2]


def test_answers_in_chunks_and_closed_connections_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    """As a proxy may send them: the description whole, then one answer in chunks a connection."""
    described = {"status": {"model": {"name": "far", "version": "1"}, "state": "MODEL_STATE_READY"},
                 "description": {"inputs": [{"name": "text", "kind": "INPUT_KIND_TEXT"}]}}  # fmt: skip
    whole = json.dumps(described).encode()
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    busy = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy"
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(whole), whole)]
    answers += [chunked, chunked, busy]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        there = f"127.0.0.1:{listener.getsockname()[1]}"
        status, report, errors = bench(capsys, "http", there, "far", "a", "-n", 3, "-c", 1, "--warmup", 0)
        thread.join(10)
    assert (status, report["outcome"]["codes"]) == (1, {"OK": 2, "RESOURCE_EXHAUSTED": 1}), errors
