"""One line of JSON an event, and nothing in it that a caller sent."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from service.logs import configure_logs, describe, log_failure, log_request, request_id


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs("info", stream)
    yield stream
    root.handlers[:], root.level = before


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_request_is_one_line_of_json(stream: io.StringIO) -> None:
    log_request({"id": "a", "method": "Predict", "total_ms": 1.5})
    (line,) = lines(stream)
    assert line["event"] == "request" and line["level"] == "info"
    assert (line["id"], line["method"], line["total_ms"]) == ("a", "Predict", 1.5)
    assert line["time"].endswith("Z")


def test_a_failure_says_where_it_came_from_and_not_what_was_sent(stream: io.StringIO) -> None:
    try:
        raise ValueError("the caller's own words")
    except ValueError as error:
        log_failure(error, "id-1", "Predict")
    assert "the caller's own words" not in stream.getvalue()
    (line,) = lines(stream)
    assert line["error"].startswith("ValueError at ") and "test_logs.py" in line["error"]


def test_a_message_of_several_lines_stays_one_line(stream: io.StringIO) -> None:
    logging.getLogger("x").warning("one\ntwo %s", "三")
    assert lines(stream)[0]["event"] == "one\ntwo 三"


@pytest.mark.parametrize("sent", ["a", "4bf92f35-77b3", "a/b:c=d@e+f._", "x" * 128])
def test_a_sane_id_is_kept(sent: str) -> None:
    assert request_id(sent) == sent


@pytest.mark.parametrize("sent", [None, "", "x" * 129, "a b", 'a"b', "a\nb", "-a", b"bytes", "é"])
def test_any_other_id_is_replaced_by_a_fresh_one(sent: str | bytes | None) -> None:
    first, second = request_id(sent), request_id(sent)
    assert first != second and len(first) == 32


def test_no_error_has_no_description() -> None:
    assert describe(None) == ""
