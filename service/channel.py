"""What a server's own processes say to each other: the one that was started, and the workers that it starts."""

import asyncio
import pickle
import socket
from dataclasses import dataclass

from service.checking.verdict import Request, Verdict
from service.folders import Folders
from service.observability.counters import Snapshot
from service.settings import Settings

_LENGTH_BYTES = 4


@dataclass(frozen=True)
class Begin:
    """To a worker, first of all: what it serves.

    late: others answer already; it listens once it has its models. folders: of the versions that there were when the
    server started, so that all workers have the same ones, whenever they start.
    """

    number: int
    settings: Settings
    late: bool
    folders: Folders


@dataclass(frozen=True)
class Loaded:
    """From a worker: its models are loaded, and it answers."""


@dataclass(frozen=True)
class Failed:
    """From a worker: it cannot serve, and ends."""

    message: str


@dataclass(frozen=True)
class Open:
    """To a worker: all others are ready too, so its health may say so."""


@dataclass(frozen=True)
class Count:
    """To a worker: tell what you have counted."""


@dataclass(frozen=True)
class Counted:
    """From a worker: what it has counted."""

    snapshot: Snapshot


@dataclass(frozen=True)
class Check:
    """From a worker: check a bundle. number: of the question."""

    number: int
    request: Request


@dataclass(frozen=True)
class Checked:
    """To a worker: what the check found; None where there was none."""

    number: int
    verdict: Verdict | None


@dataclass(frozen=True)
class Stop:
    """To a worker: drain, finish what was admitted, and end."""


Message = Begin | Loaded | Failed | Open | Count | Counted | Check | Checked | Stop


class Channel:
    """One end of a pair of sockets between two processes of one server. For one event loop.

    Messages are pickled: both ends are this program, and nobody else has them.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> "Channel":
        """Make a channel of a connected socket."""
        return cls(*await asyncio.open_connection(sock=end))

    def send(self, message: Message) -> None:
        """Send a message; without effect where the other end is gone."""
        data = pickle.dumps(message)
        if not self._writer.is_closing():
            self._writer.write(len(data).to_bytes(_LENGTH_BYTES) + data)

    async def sent(self) -> None:
        """Wait until what was sent has left this process."""
        try:
            await self._writer.drain()
        except OSError:
            return

    async def receive(self) -> Message | None:
        """Wait for the next message; None once the other end is gone."""
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES))
            message: Message = pickle.loads(await self._reader.readexactly(length))
        except (EOFError, OSError):
            return None
        return message

    def close(self) -> None:
        """Close this end."""
        self._writer.close()
