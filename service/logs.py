"""Structured logs: one JSON object a line, on standard error. What a caller sends is never in them."""

import json
import logging
import random
import re
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any, TextIO

_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
_requests = logging.getLogger("limelight.requests")


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON; a mapping logged as `extra={"fields": …}` becomes members of its own.

    worker: the number of the process among several, which every line then has.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._every: dict[str, Any] = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        """Write the record."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **self._every,
        }
        fields: Mapping[str, Any] | None = getattr(record, "fields", None)
        if fields:
            line.update(fields)
        if record.exc_info:
            line["error"] = f"{describe(record.exc_info[1])}: {record.exc_info[1]}"
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logs(level: str, stream: TextIO | None = None, *, worker: int | None = None) -> None:
    """Send every log of the process to a stream (standard error), from `level` up. worker: its number among several."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(worker))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def request_id(sent: str | bytes | None) -> str:
    """Take a caller's id for its request if it is short and plain, or make one."""
    if isinstance(sent, str) and _SANE_ID.fullmatch(sent):
        return sent
    return f"{random.getrandbits(128):032x}"  # tells requests apart and keeps no secret: uuid4 takes 60 times as long


def log_request(fields: Mapping[str, Any]) -> None:
    """Write the line of one request; `fields` hold what is known about it, and nothing that it sent."""
    if _requests.isEnabledFor(logging.INFO):
        _requests.info("request", extra={"fields": fields})


def log_failure(error: BaseException, identity: str, method: str) -> None:
    """Write down an error that nobody foresaw, with where it came from."""
    _requests.error("failure", extra={"fields": {"id": identity, "method": method, "error": describe(error)}})


def describe(error: BaseException | None) -> str:
    """Give an error's kind and stack, innermost last, without its message, which may quote a request."""
    if error is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    places = " > ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__qualname__} at {places}" if places else type(error).__qualname__
