"""Messages between a supervisor and its processes."""

import os
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from limelight_service.errors import ErrorRecord
from limelight_service.ipc.connection import Connection, Descriptor, Packet
from limelight_service.ipc.wire import Wire

Folder = tuple[str, int, str]  # name, version, path


class Begin(Wire, tag=0):
    """To a process, first of all. folders: of the models that an engine is to load. succeeds: it takes the place of one
    that ended, of a server that answers.
    """

    number: int
    settings: dict[str, Any]
    folders: list[Folder]
    peers: int
    succeeds: bool


class Attach(Wire, tag=1):
    """To a process, with a socket: a connection to the engine, or the frontend, of this number."""

    number: int


class Stop(Wire, tag=2):
    """To a process: finish what was admitted, and end."""


class Count(Wire, tag=3):
    """To a process: send a snapshot of the metrics."""


class Checked(Wire, tag=4):
    """To an engine: the verdict on a bundle as JSON; None where there is none."""

    number: int
    verdict: bytes | None


class Change(Wire, tag=5):
    """To an engine, and from a frontend to the supervisor: load or unload a version. version: 0, from a frontend, to
    load the highest that the folder has. path: of its folder, for an engine.
    """

    number: int
    action: str
    name: str
    version: int
    path: str = ""


class Starts(Wire, tag=6):
    """To a frontend: an engine ended, and its successor starts in so many seconds."""

    number: int
    seconds: float


class Reread(Wire, tag=8):
    """To a frontend: read tokens and certificates again."""


class Statistics(Wire, tag=9):
    """From a frontend: join the statistics of every process; and the answer."""

    number: int
    snapshot: dict[str, Any] | None = None


class Changed(Wire, tag=7):
    """The answer to `Change`. error: None where it is done. version: that was changed, for a frontend."""

    number: int
    error: ErrorRecord | None
    version: int = 0


class Ready(Wire, tag=10):
    """From a process: an engine has the models that its start waits for; a frontend knows those of every engine."""


class Failed(Wire, tag=11):
    """From a process: it cannot serve, and ends. message: for the user."""

    message: str


class Counted(Wire, tag=12):
    """From a process: its metrics, and its statistics."""

    snapshot: dict[str, Any]
    statistics: dict[str, Any]


class Check(Wire, tag=13):
    """From an engine: check a bundle. request: as JSON."""

    number: int
    request: bytes


class Disconnected(Wire, tag=14):
    """From a frontend: the connection to the engine of this number is lost."""

    number: int


Message = (
    Begin
    | Attach
    | Stop
    | Count
    | Checked
    | Change
    | Starts
    | Changed
    | Reread
    | Statistics
    | Ready
    | Failed
    | Counted
    | Check
    | Disconnected
)
Receive = Callable[[Any, socket.socket | None], None]


class ControlLink:
    """One end of the connection between a supervisor and a process. For one event loop.

    receive: called with each message, and with the socket that came with it. lost: called once the other end is gone.
    """

    def __init__(self, end: socket.socket, receive: Receive, lost: Callable[[], None]) -> None:
        self._receive = receive
        self._decoder = msgspec.msgpack.Decoder(Message)
        self._connection = Connection(end, self._unpack, lost)

    def send(self, message: Wire, attached: socket.socket | None = None) -> None:
        """Send a message. attached: a socket that the other process gets a copy of; this one is closed here."""
        descriptors = () if attached is None else (Descriptor(attached.detach()),)
        self._connection.send(Packet(msgspec.msgpack.encode(message), descriptors))

    def flush(self) -> None:
        """Send what waits at once."""
        self._connection.flush()

    def close(self) -> None:
        """Close this end."""
        self._connection.close()

    def _unpack(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        attached = socket.socket(fileno=descriptors[0]) if descriptors else None
        for each in descriptors[1:]:
            os.close(each)
        self._receive(self._decoder.decode(data), attached)
