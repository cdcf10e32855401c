"""Structured logs: one JSON object a line, on standard error. What a caller sends is never in them.

Logging never waits for the reader of the log: lines wait in a bounded queue, a thread of their own writes them, and
lines beyond the bound are dropped and counted. Every call that is answered has a line; of failed calls, and of
everything else that callers can bring about, only so many lines in a span of time (`log_limit`), and then their number.
"""

import json
import logging
import os
import queue
import random
import re
import select
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from logging.handlers import QueueHandler, QueueListener
from typing import Any

from limelight_service.observability.log_limit import LineLimit

DEFAULT_BYTES = 4 * 2**20
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
_FLUSH_SECONDS, _FLUSH_POLL = 1.0, 0.005
_GATHER = 0.02  # seconds that lines gather: waking the thread for each line would cost a call more than its line
# Loggers of a line for each model, and not for each call.
_OPERATORS = (
    "limelight_service.repository",
    "limelight_service.checking",
    "limelight_service.hosting.store",
    "limelight_service.hosting.loading",
)
_requests = logging.getLogger("limelight.requests")
# In ASCII, so that no name turns a terminal's text round.
_encode = json.JSONEncoder(default=str).encode


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON; a mapping logged as `extra={"fields": …}` becomes members of its own.

    process: the name of this process among several, which every line then has.
    """

    default_time_format, default_msec_format = "%Y-%m-%dT%H:%M:%S", "%s.%03dZ"

    def __init__(self, process: str | None = None) -> None:
        super().__init__()
        self.converter = time.gmtime
        self._every: dict[str, Any] = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        """Write the record."""
        line: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **self._every,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = f"{describe(record.exc_info[1])}: {record.exc_info[1]}"
        return _encode(line)


class _Lines(queue.Queue[str]):
    """Lines that wait to be written; full at `maxsize` characters."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._size = 0

    def _qsize(self) -> int:
        return self._size

    def _put(self, item: str) -> None:
        super()._put(item)
        self._size += len(item)

    def _get(self) -> str:
        item = super()._get()
        self._size -= len(item)
        return item


class _Handler(QueueHandler):
    """Queues every line of the process; a line that does not fit is dropped and counted."""

    def __init__(self, limit: int, process: str | None) -> None:
        self.lines = _Lines(max(1, limit))
        super().__init__(self.lines)
        self.setFormatter(JsonFormatter(process))
        self.addFilter(self._is_allowed)
        self.limit = LineLimit(self._left_out)
        self.dropped = self._unsaid = 0
        self.on_drop: Callable[[float], None] = lambda _: None
        self._drops = threading.Lock()

    def prepare(self, record: logging.LogRecord) -> str:
        """Write the record as the line that is queued."""
        return self.format(record)

    def enqueue(self, record: Any) -> None:
        """Queue a prepared line, where it fits."""
        try:
            self.lines.put_nowait(record)
        except queue.Full:
            self.drop(1, say=True)

    def drop(self, lines: int, *, say: bool) -> None:
        """Count lines that are lost. say: whether the log itself will say so."""
        with self._drops:
            self.dropped += lines
            self._unsaid += lines if say else 0
        self.on_drop(lines)

    def notice(self) -> str | None:
        """Make the line about lines dropped since the last such line; None where there were none."""
        with self._drops:
            lines, self._unsaid = self._unsaid, 0
        return self._warning("log lines were dropped: nobody read the log", lines=lines) if lines else None

    def _is_allowed(self, record: logging.LogRecord) -> bool:
        code = getattr(record, "code", None)  # of a request
        if code == "OK" or record.name.startswith(_OPERATORS):
            return True
        return self.limit.allows(code or (record.levelno, record.name, record.lineno))

    def _left_out(self, kind: Hashable, lines: int) -> None:
        match kind:
            case (int(), str() as name, int() as line):
                self.enqueue(self._warning("lines like one before were left out", lines=lines, of=f"{name}:{line}"))
            case _:
                self.enqueue(self._warning("requests that failed were left out", lines=lines, code=kind))

    def _warning(self, text: str, **fields: Any) -> str:
        record = {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": text, "fields": fields}
        return self.prepare(logging.makeLogRecord(record))


class _Writer(QueueListener):
    """Writes queued lines to a descriptor, on a thread of its own.

    Lines are written in pieces that a pipe takes whole, so that lines of several processes do not mix.
    """

    def __init__(self, handler: _Handler, descriptor: int) -> None:
        super().__init__(handler.lines)
        self._handler = handler
        self._descriptor = descriptor
        self._piece = b""
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def dequeue(self, block: bool) -> Any:
        """Wait for a line; where none waits, write what has gathered first."""
        notice = self._handler.notice()
        if notice is not None:
            self.handle(notice)
        with suppress(queue.Empty):
            return self._handler.lines.get_nowait()
        self._flush()
        first = self._handler.lines.get()
        time.sleep(_GATHER)
        return first

    def handle(self, record: Any) -> None:
        """Add a line to the piece, which is written first where the line does not fit."""
        line = record.encode("utf-8", "backslashreplace") + b"\n"
        if len(self._piece) + len(line) > select.PIPE_BUF:
            self._flush()
        self._piece += line

    def wait(self, seconds: float) -> None:
        """Wait until every line is written, for at most so long."""
        end = time.monotonic() + seconds
        while (self._handler.lines.unfinished_tasks or self._piece) and time.monotonic() < end:
            time.sleep(_FLUSH_POLL)

    def _flush(self) -> None:
        """Write the piece, however long that takes: only this thread waits."""
        piece = self._piece
        try:
            while piece:
                self._poll.poll()  # a pipe that can be written takes a whole piece: even a blocking one does not block
                try:
                    piece = piece[os.write(self._descriptor, piece) :]
                except BlockingIOError:
                    time.sleep(_GATHER)
        except OSError:  # the reader is gone, the disk is full, or the file may not grow: the metrics say so
            self._handler.drop(piece.count(b"\n"), say=False)
        self._piece = b""


_output: tuple[_Handler, _Writer] | None = None


def configure_logs(
    level: str, *, process: str | None = None, descriptor: int | None = None, limit: int = DEFAULT_BYTES
) -> None:
    """Send every log of the process to a descriptor (standard error), from `level` up.

    Args:
        level: of `logging`, in either case.
        process: name of this process among several.
        descriptor: to write to.
        limit: characters of lines that may wait to be written; more lines are dropped and counted.
    """
    global _output
    if descriptor is None:
        descriptor = sys.stderr.fileno()
        _unblock(descriptor)
    handler = _Handler(limit, process)
    _output = handler, _Writer(handler, descriptor)
    _output[1].start()
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def flush_logs() -> None:
    """Wait until every line is written, for at most a second: perhaps nobody reads the log."""
    if _output is not None:
        handler, writer = _output
        handler.limit.flush()
        writer.wait(_FLUSH_SECONDS)


def count_dropped(add: Callable[[float], None]) -> None:
    """Have `add` called with the number of lines dropped so far, and of those dropped from now on."""
    if _output is not None:
        handler, _ = _output
        handler.on_drop = add
        add(handler.dropped)


def _unblock(descriptor: int) -> None:
    """Have no write to a pipe wait for its reader: libraries write to standard error themselves, on threads that serve.

    What they write while the pipe is full is lost. The pipe is opened anew, since other processes share the old
    descriptor's flags. Where it cannot be opened, it is left as it is.
    """
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return
    try:
        opened = os.open(f"/dev/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    os.dup2(opened, descriptor)
    os.close(opened)


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
    durations: Mapping[str, int],
) -> None:
    """Log one request: facts about it, and nothing that it sent.

    token: the name of the caller's, if any. durations: nanoseconds by stage.
    """
    if not _requests.isEnabledFor(logging.INFO):
        return
    fields: dict[str, Any] = {"id": identity}
    if token:
        fields["token"] = token
    fields |= {"method": method, "model": model, "version": version, "rows": rows, "code": code}
    fields |= {"total_ms": round(seconds * 1e3, 3)}
    fields |= {f"{stage}_ms": round(nanoseconds / 1e6, 3) for stage, nanoseconds in durations.items()}
    _requests.info("request", extra={"code": code, "fields": fields})


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
