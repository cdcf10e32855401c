"""One line of JSON an event, and nothing in it that a caller sent."""

import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from limelight_service.observability import logs
from limelight_service.observability.log_limit import LineLimit
from limelight_service.observability.logs import (
    configure_logs,
    count_dropped,
    describe,
    flush_logs,
    log_failure,
    log_request,
    request_id,
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """The log of this process, in a file."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    file = tmp_path / "log"
    with file.open("wb") as opened:
        configure_logs("info", descriptor=opened.fileno())
        yield file
        flush_logs()
        logs._output = None
        root.handlers[:], root.level = before


def lines(log: Path) -> list[dict[str, Any]]:
    flush_logs()
    return [json.loads(line) for line in log.read_text().split("\n")[:-1]]


def request(identity: str = "a", model: str = "tiny", token: str = "", code: str = "OK") -> None:
    log_request(
        identity=identity,
        token=token,
        method="Predict",
        model=model,
        version=2,
        rows=3,
        code=code,
        seconds=0.0015,
        durations={"queue": 250_000, "compute": 1_000_000},
    )


def test_a_request_is_one_line_of_json(log: Path) -> None:
    before = time.time()
    request()
    (line,) = lines(log)
    moment = line.pop("time")
    assert line == {
        "level": "info",
        "event": "request",
        "logger": "limelight.requests",
        "id": "a",
        "method": "Predict",
        "model": "tiny",
        "version": 2,
        "rows": 3,
        "code": "OK",
        "total_ms": 1.5,
        "queue_ms": 0.25,
        "compute_ms": 1.0,
    }
    assert (
        time.strftime("%Y-%m-%dT%H:%M", time.gmtime(before)) <= moment[:16] and moment[19] == "." and moment[-1] == "Z"
    )


def test_whatever_an_id_and_a_model_are_called_the_line_is_json(log: Path) -> None:
    names: list[tuple[str, str]] = []

    @given(some.text(), some.text())
    def each(identity: str, model: str) -> None:
        names.append((identity, model))
        request(identity, model, token=identity)

    each()
    found = lines(log)
    assert [(line["id"], line["model"]) for line in found] == names
    assert [line.get("token", "") for line in found] == [identity for identity, _ in names]


def narrow_pipe() -> tuple[int, int]:
    """A pipe that holds 4096 bytes: its end to read and its end to write."""
    there, here = os.pipe()
    fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096)
    return there, here


def say(text: str, number: int = 0) -> None:
    """Log a line of a place of its own: lines of one place are bounded."""
    logging.getLogger().handle(logging.LogRecord("x", logging.INFO, __file__, number, text, None, None))


def test_lines_that_nobody_reads_are_dropped_and_counted_and_the_log_says_so(log: Path) -> None:
    there, here = narrow_pipe()
    configure_logs("info", descriptor=here, limit=1000)
    counted: list[float] = []
    count_dropped(counted.append)
    started = time.monotonic()
    for number in range(2000):
        say(f"{number:09d}", number)
    assert time.monotonic() - started < 30  # nothing waited, though nobody read
    assert sum(counted) > 1000
    os.set_blocking(there, False)
    numbers: list[int] = []
    said, rest, end = 0, b"", time.monotonic() + 60
    while len(numbers) + said < 2000 and time.monotonic() < end:
        try:
            *complete, rest = (rest + os.read(there, 4096)).split(b"\n")
        except BlockingIOError:
            time.sleep(0.01)
            continue
        found = [json.loads(line) for line in complete]
        numbers += [int(line["event"]) for line in found if "dropped" not in line["event"]]
        said += sum(line["lines"] for line in found if "dropped" in line["event"])
    assert numbers == sorted(numbers)
    assert said == 2000 - len(numbers) == sum(counted)
    say("next")
    flush_logs()
    assert json.loads(os.read(there, 4096))["event"] == "next"


def test_a_log_whose_reader_is_gone_stops_nobody_and_its_lines_are_counted(log: Path) -> None:
    there, here = narrow_pipe()
    configure_logs("info", descriptor=here)
    counted: list[float] = []
    count_dropped(counted.append)
    os.close(there)
    started = time.monotonic()
    for number in range(3):
        say("x" * 5000, number)
        flush_logs()
    assert sum(counted) == 3 and time.monotonic() - started < 1  # none is waited for


def test_lines_of_several_processes_do_not_mix(log: Path) -> None:
    there, here = narrow_pipe()
    configure_logs("info", descriptor=here)
    for number in range(100):
        say("x" * 300, number)
    found = b""
    while found.count(b"\n") < 100:
        piece = os.read(there, 2**16)
        assert len(piece) <= 4096 and piece.endswith(b"\n")
        found += piece


def test_lines_of_several_threads_come_whole_and_in_each_ones_order(log: Path) -> None:
    def work(name: str) -> None:
        for number in range(300):
            # Lines of one place are bounded: each is of a place of its own.
            place = (name, logging.INFO, __file__, number, "%d", (number,), None)
            logging.getLogger().handle(logging.LogRecord(*place))

    threads = [threading.Thread(target=work, args=(f"thread-{each}",)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = lines(log)
    for name in ("thread-0", "thread-3"):
        assert [int(line["event"]) for line in found if line["logger"] == name] == list(range(300))


def test_what_was_dropped_before_it_was_counted_is_counted_too(log: Path) -> None:
    there, here = narrow_pipe()
    configure_logs("info", descriptor=here, limit=1)
    os.close(there)
    request()
    flush_logs()
    counted: list[float] = []
    count_dropped(counted.append)
    request()
    flush_logs()
    assert sum(counted) == 2


def test_a_failure_says_where_it_came_from_and_not_what_was_sent(log: Path) -> None:
    try:
        raise ValueError("the caller's own words")
    except ValueError as error:
        log_failure(error, "id-1", "Predict")
    (line,) = lines(log)
    assert "the caller's own words" not in json.dumps(line)
    assert line["error"].startswith("ValueError at ") and "test_logs.py" in line["error"]


def test_a_message_of_several_lines_stays_one_line(log: Path) -> None:
    logging.getLogger("x").warning("one\ntwo %s", "三")
    assert [line["event"] for line in lines(log)] == ["one\ntwo 三"]


@pytest.mark.parametrize("sent", ["a", "4bf92f35-77b3", "a/b:c=d@e+f._", "x" * 128])
def test_a_sane_id_is_kept(sent: str) -> None:
    assert request_id(sent) == sent


@pytest.mark.parametrize("sent", [None, "", "x" * 129, "a b", 'a"b', "a\nb", "-a", b"bytes", "é"])
def test_any_other_id_is_replaced_by_a_fresh_one(sent: str | bytes | None) -> None:
    first, second = request_id(sent), request_id(sent)
    assert first != second and len(first) == 32


def test_no_error_has_no_description() -> None:
    assert describe(None) == ""


def test_answers_are_all_logged_and_of_failed_requests_only_so_many(log: Path) -> None:
    for number in range(500):
        request(str(number))
        request(str(number), code="UNAUTHENTICATED")
    request("other", code="NOT_FOUND")
    found = lines(log)
    codes = [each.get("code") for each in found if each["event"] == "request"]
    assert (codes.count("OK"), codes.count("NOT_FOUND"), codes.count("UNAUTHENTICATED")) == (500, 1, 50)
    (left_out,) = [each for each in found if each["event"] == "requests that failed were left out"]
    assert (left_out["code"], left_out["lines"], left_out["level"]) == ("UNAUTHENTICATED", 450, "warning")


def test_of_each_other_line_there_are_only_so_many(log: Path) -> None:
    for number in range(300):
        logging.getLogger("limelight.test").error("the graph failed on %d", number)
    logging.getLogger("limelight.test").error("something else")
    for number in range(300):
        logging.getLogger("limelight_service.repository").warning("folder %d is no model", number)
    found = lines(log)
    assert sum(each["event"].startswith("the graph failed") for each in found) == 50
    assert any(each["event"] == "something else" for each in found)
    assert sum(each["event"].startswith("folder") for each in found) == 300  # as many as there are, whoever calls
    (left_out,) = [each for each in found if each["event"] == "lines like one before were left out"]
    assert left_out["lines"] == 250 and left_out["of"].startswith("limelight.test:")


def test_lines_that_were_left_out_are_told_of_once_the_time_is_over() -> None:
    now, told = [0.0], []
    limit = LineLimit(lambda kind, lines: told.append((kind, lines)), lines=2, seconds=10.0, clock=lambda: now[0])
    assert [limit.allows("a") for _ in range(5)] == [True, True, False, False, False]
    assert limit.allows("b") and not told
    now[0] = 11.0
    assert limit.allows("a") and told == [("a", 3)]
    limit.flush()
    assert told == [("a", 3)]
