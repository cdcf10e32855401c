"""`limelight bench --protocol http` measures a server's HTTP port."""

import json
import socket
import threading
from typing import Any

import pytest

from limelight import cli
from tests.kit.serving import Running
from tests.service.http.calls import place


def bench(capsys: pytest.CaptureFixture[str], target: str, *arguments: object) -> tuple[int, dict[str, Any], str]:
    """Run it: exit status, report, errors."""
    command = ("bench", *arguments, "--protocol", "http", "--target", target, "--json", "-")
    status = cli.main([str(each) for each in command])
    output, errors = capsys.readouterr()
    return status, json.loads(output) if output else {}, errors


@pytest.fixture
def target(running: Running) -> str:
    host, port = place(running)
    return f"{host}:{port}"


def test_it_sends_texts_and_asks_for_a_map(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    load = ("--rows", 2, "-n", 10, "-c", 2)
    status, plain, errors = bench(capsys, target, "tiny", "the cat sat", *load)
    assert status == 0, errors
    assert (plain["setup"]["method"], plain["outcome"]["codes"]) == ("Predict", {"OK": 10})
    status, with_map, errors = bench(capsys, target, "tiny", "the cat sat", "--map", "encoder.0.self", *load)
    assert status == 0, errors
    assert with_map["setup"]["method"] == "Attend"
    assert with_map["outcome"]["response_bytes"] > plain["outcome"]["response_bytes"]


def test_it_sends_an_open_loop_of_the_models_example(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, report, errors = bench(capsys, target, "tiny", "--rate", 100, "-n", 20)
    assert status == 0, errors
    assert (report["setup"]["loop"], report["outcome"]["codes"]) == ("open", {"OK": 20})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nobody", "a"), "NOT_FOUND: there is no model 'nobody'"),
        (("tiny", "a", "--map", "nothing"), "INVALID_ARGUMENT: "),
        (("tiny", "a", "--version", 9), "NOT_FOUND: "),
    ],
)
def test_what_the_server_refuses_is_told(
    target: str, capsys: pytest.CaptureFixture[str], arguments: tuple[object, ...], problem: str
) -> None:
    status, _, errors = bench(capsys, target, *arguments)
    assert status == 1 and problem in errors


def test_a_server_that_is_not_there_and_a_wrong_target_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = f"127.0.0.1:{listener.getsockname()[1]}"
    assert bench(capsys, gone, "tiny", "a")[2].startswith(f"limelight: no server answers at {gone}")
    assert "takes a --target HOST:PORT" in bench(capsys, "localhost", "tiny", "a")[2]


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
        status, report, errors = bench(capsys, there, "far", "a", "-n", 3, "-c", 1, "--warmup", 0)
        thread.join(10)
    assert (status, report["outcome"]["codes"]) == (1, {"OK": 2, "RESOURCE_EXHAUSTED": 1}), errors
