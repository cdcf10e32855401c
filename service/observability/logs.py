"""Structured logs: one JSON object a line, on standard error. What a caller sends is never in them.

Nothing waits for whoever reads them (`log_writer`). Every call that is answered has a line; of calls that are
not, and of everything else that callers can bring about, there are only so many in a span of time
(`log_limit`), and then how many there were besides.
"""

import json
import logging
import random
import re
import sys
import time
import traceback
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from service.observability.log_limit import LineLimit
from service.observability.log_writer import DEFAULT_BYTES, LogWriter, unblock

_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
_FLUSH_SECONDS = 1.0
_OPERATORS = ("service.repository", "service.checking", "service.folders")  # a line for each model, and of no caller's
_requests = logging.getLogger("limelight.requests")


class _Clock:
    """Writes times; the second that all of them share most often is written once."""

    def __init__(self) -> None:
        self._last = (-1, "")  # in one piece, since threads share it

    def write(self, moment: float) -> str:
        """Write a time (seconds since 1970) in UTC, to the millisecond."""
        second = int(moment)
        last, written = self._last
        if second != last:
            written = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._last = (second, written)
        return f"{written}.{int((moment - second) * 1e3):03d}Z"


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON; a mapping logged as `extra={"fields": …}` becomes members of its own.

    worker: the number of the process among several, which every line then has.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._every: dict[str, Any] = {} if worker is None else {"worker": worker}
        self._clock = _Clock()

    def format(self, record: logging.LogRecord) -> str:
        """Write the record."""
        line: dict[str, Any] = {
            "time": self._clock.write(record.created),
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


class _Output(logging.Handler):
    """Where every line of the process goes."""

    def __init__(self, descriptor: int, limit: int, worker: int | None) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter(worker))
        self._clock = _Clock()
        self._after = "" if worker is None else f',"worker":{worker}'
        self.writer = LogWriter(descriptor, self._dropped, limit=limit)
        self.limit = LineLimit(self._left_out)

    def emit(self, record: logging.LogRecord) -> None:
        """Have a record written."""
        own = record.name.startswith(_OPERATORS)
        if not own and not self.limit.allows((record.levelno, record.name, record.lineno)):
            return
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
        else:
            self.writer.write(line)

    def line(self, members: str) -> None:
        """Have a request's line written, of members that are JSON already."""
        self.writer.write(
            f'{{"time":"{self._clock.write(time.time())}","level":"info","event":"request",'
            f'"logger":"{_requests.name}"{self._after},{members}}}'
        )

    def _dropped(self, lines: int) -> str:
        return self._warning("lines of the log were dropped: nobody read it", lines=lines)

    def _left_out(self, kind: Hashable, lines: int) -> None:
        match kind:
            case (int(), str() as name, int() as line):
                written = self._warning("lines like one before were left out", lines=lines, of=f"{name}:{line}")
            case _:
                written = self._warning("requests that failed were left out", lines=lines, code=kind)
        self.writer.write(written)

    def _warning(self, text: str, **fields: Any) -> str:
        record = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": text, "fields": fields}
        return self.format(logging.makeLogRecord(record))


_output: _Output | None = None


def configure_logs(
    level: str, *, worker: int | None = None, descriptor: int | None = None, limit: int = DEFAULT_BYTES
) -> None:
    """Send every log of the process to a descriptor (standard error), from `level` up.

    worker: its number among several. limit: bytes of lines that may wait to be written; more are dropped and counted.
    """
    global _output
    if descriptor is None:
        descriptor = sys.stderr.fileno()
        unblock(descriptor)
    _output = _Output(descriptor, limit, worker)
    root = logging.getLogger()
    root.handlers[:] = [_output]
    root.setLevel(level.upper())


def flush_logs() -> None:
    """Wait until what was logged is written: for at most a second, since there may be nobody who reads."""
    if _output is not None:
        _output.limit.flush()
        _output.writer.flush(_FLUSH_SECONDS)


def count_dropped(add: Callable[[float], None]) -> None:
    """Have each line that is dropped counted from now on, and at once those that were."""
    if _output is not None:
        _output.writer.on_drop = lambda: add(1)
        add(_output.writer.dropped)


def request_id(sent: str | bytes | None) -> str:
    """Take a caller's id for its request if it is short and plain, or make one."""
    if isinstance(sent, str) and _SANE_ID.fullmatch(sent):
        return sent
    return f"{random.getrandbits(128):032x}"  # tells requests apart and keeps no secret: uuid4 takes 60 times as long


def log_request(
    *,
    identity: str,
    token: str,
    method: str,
    model: str,
    version: int,
    rows: int,
    code: str,
    seconds: float,
    durations: Mapping[str, float],
) -> None:
    """Write the line of one request: what is known about it, and nothing that it sent.

    token: the name of the caller's, if any. durations: milliseconds by name. The line is put together by hand, in a
    third of the time that `logging` and `json` take: every call pays for it on the event loop. Texts but the
    id, token and model are the program's own.
    """
    if _output is None or not _requests.isEnabledFor(logging.INFO):
        return
    if code != "OK" and not _output.limit.allows(code):  # answers take work, and refusals nearly none
        return
    named = f'"token":{json.dumps(token)},' if token else ""
    stages = "".join([f',"{name}":{value}' for name, value in durations.items()])
    _output.line(
        f'"id":{json.dumps(identity)},{named}"method":"{method}","model":{json.dumps(model)},"version":{version},'
        f'"rows":{rows},"code":"{code}","total_ms":{seconds * 1e3:.3f}{stages}'
    )


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
