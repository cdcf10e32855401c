"""A checking process, as the process that starts it sees it."""

import signal
import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from limelight_service.checking.verdict import Interrupted, Refused, Request, Verdict, from_json
from limelight_service.platform.threads import background
from limelight_service.process_signals import spared

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; from limelight_service.checking.child import main; main({descriptor}, {idle})"
)
_LARGEST_ANSWER = 64 * 2**20
_START_SECONDS = 120.0
_KEPT = 4096  # bytes of what it wrote before it ended


class CheckingProcess:
    """One process; used by one thread at a time.

    idle: seconds after which it ends by itself if nothing is asked of it.
    """

    def __init__(self, idle: float) -> None:
        ours, theirs = Pipe()
        program = _PROGRAM.format(path=sys.path, descriptor=theirs.fileno(), idle=idle)
        with theirs, spared():
            # A new interpreter, since nothing of a runtime survives a fork; it ends by its parent's word.
            self._process = subprocess.Popen(
                (sys.executable, "-c", program),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        self._connection: Connection = ours
        self._said = b""
        self._reader = background(self._read, "check-errors")
        self._reader.start()

    def check(self, request: Request) -> Verdict | None:
        """Have a bundle checked; None where the process had ended before it could begin.

        A process that took too long is killed, and of no more use, as `is_alive` tells.
        """
        try:
            self._connection.send_bytes(request.to_json())
            if not self._connection.poll(_START_SECONDS):
                return self._overdue(_START_SECONDS)
            self._connection.recv_bytes()
            self._said = b""
        except (EOFError, OSError):
            self._stop()  # it is about to end: until it has, `is_alive` would have it tried again
            return None
        try:
            if not self._connection.poll(request.settings.check_seconds):
                return self._overdue(request.settings.check_seconds)
            return from_json(self._connection.recv_bytes(_LARGEST_ANSWER))
        except (EOFError, OSError):
            return self._ended(request)
        except (ValueError, KeyError, TypeError):
            self._stop()
            return Refused("its check ended in disorder", self.last_words())

    @property
    def is_alive(self) -> bool:
        """True while it can be asked."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once. From any thread: one that waits for an answer gets none."""
        self._process.kill()

    def close(self) -> None:
        """End it, and keep nothing of it."""
        self._stop()
        self._connection.close()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _overdue(self, seconds: float) -> Refused:
        self._stop()
        return Refused(f"its check takes longer than the {seconds:g} s that it may", self.last_words())

    def _ended(self, request: Request) -> Refused | Interrupted:
        status = self._process.wait()
        if status == -signal.SIGKILL:
            # No limit of its own ends it so: the system was short of memory, and this process was the first to go.
            return Interrupted("the system ended the process that checked it (SIGKILL), as where memory runs out")
        if status == -signal.SIGXCPU:
            most = request.settings.check_cpu_seconds
            return Refused(f"its check takes more than the {most} s of a core that it may", self.last_words())
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        most = request.settings.check_bytes
        return Refused(
            f"its check ended the process that checked it ({how}); it may have needed more than {most} bytes of memory",
            self.last_words(),
        )

    def last_words(self) -> str:
        """Give the end of what it wrote to standard error for the bundle that it had last."""
        self._reader.join(1.0)
        return self._said.decode("utf-8", "replace")

    def _read(self) -> None:
        """Take what it writes to standard error, and keep the end of it; then it has ended, and is not kept waiting."""
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while data := stream.read1(_KEPT):  # type: ignore[attr-defined]
                self._said = (self._said + data)[-_KEPT:]
        self._process.wait()
