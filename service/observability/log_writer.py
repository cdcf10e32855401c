"""Writes lines to a descriptor on a thread of its own: nothing that is logged waits for whoever reads the log."""

import os
import select
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from service.threads import background

DEFAULT_BYTES = 4 * 2**20
_GATHER = (
    0.02  # seconds that lines gather before they are written: a write for each would cost a call more than its line
)
_ATOMIC = select.PIPE_BUF  # what a pipe takes in one piece, so that lines of several processes do not mix
_LOOK = 100  # milliseconds between looks at a reader that does not read: whether it is time to give up


class LogWriter:
    """Lines in order, of which so many bytes may wait; beyond that they are dropped and counted. For any thread.

    describe: writes the line that says how many lines were dropped; it stands where they would have.
    on_drop: is called for each line that is dropped, by whoever logs it.
    """

    def __init__(self, descriptor: int, describe: Callable[[int], str], *, limit: int = DEFAULT_BYTES) -> None:
        self._descriptor = descriptor
        self._describe = describe
        self._limit = limit
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self._size = 0
        self._skipped = 0
        self._writing = False
        self._due = threading.Event()
        self._hurry = threading.Event()
        self.dropped = 0
        self.on_drop: Callable[[], None] = lambda: None
        background(self._work, "log").start()

    def write(self, line: str) -> None:
        """Have a line written, without its end of line; never waits."""
        with self._changed:
            fits = self._size + len(line) <= self._limit
            if fits:
                self._lines.append(line)
                self._size += len(line)
            else:
                self._skipped += 1
                self.dropped += 1
        if not fits:
            self.on_drop()
        elif not self._due.is_set():
            self._due.set()
        elif self._size > self._limit // 2 and not self._hurry.is_set():
            self._hurry.set()

    def flush(self, seconds: float) -> bool:
        """Wait for at most so long until all that was logged is written; gives whether it is."""
        self._hurry.set()
        self._due.set()
        with self._changed:
            return self._changed.wait_for(lambda: not (self._lines or self._skipped or self._writing), seconds)

    def _work(self) -> None:
        while True:
            self._due.wait()
            self._hurry.wait(_GATHER)
            self._hurry.clear()
            self._due.clear()  # before the lines are taken: what comes later is due again
            with self._changed:
                lines, self._lines, self._size = self._lines, deque(), 0
                skipped, self._skipped = self._skipped, 0
                self._writing = True
            if skipped:
                lines.append(self._describe(skipped))
            for piece in _pieces(lines):
                try:
                    self._put(piece)
                except OSError:  # nobody reads any more, the disk is full, or the file may not grow: metrics tell
                    self._lost(piece.count(b"\n"))
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _lost(self, lines: int) -> None:
        with self._changed:
            self.dropped += lines
        for _ in range(lines):
            self.on_drop()

    def _put(self, piece: bytes) -> None:
        """Write a piece, however long that takes; only this thread waits."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while piece:
            # A pipe that can be written takes a whole piece: even one that blocks does not block then.
            if poll.poll(_LOOK):
                try:
                    piece = piece[os.write(self._descriptor, piece) :]
                except BlockingIOError:
                    time.sleep(_GATHER)


def _pieces(lines: Iterable[str]) -> Iterator[bytes]:
    """Join lines to pieces that are written at once; a line that is longer by itself is one."""
    piece = b""
    for line in lines:
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        if piece and len(piece) + len(data) > _ATOMIC:
            yield piece
            piece = b""
        piece += data
    if piece:
        yield piece


def unblock(descriptor: int) -> None:
    """Have no write to a pipe wait for its reader: libraries write there themselves, on threads that serve.

    What they write while the pipe is full is lost. The pipe is opened anew, since how the old descriptor blocks is also
    that of other processes. Where it cannot be opened, it is left as it is.
    """
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return
    try:
        opened = os.open(f"/dev/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    os.dup2(opened, descriptor)
    os.close(opened)
