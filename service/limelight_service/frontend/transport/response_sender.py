"""Gives answers to gRPC, large ones one at a time, and ends their waiting for callers who do not read them.

gRPC holds an answer until its caller makes room for it, and cannot be told to give it up: neither a status nor a
cancelled task gets past a message that waits, and a caller who answers pings is alive. So the connection is closed.
"""

import asyncio
import logging
import os
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

logger = logging.getLogger(__name__)

_MOST = 4096  # answers that wait, each of which costs some kilobytes whatever its size
_LOOKS = 8  # in the time that an answer has
# gRPC copies what it is given on the event loop, and keeps the interpreter's lock for it: about 3 ms for so many bytes.
_LARGE = 4 * 2**20


@dataclass(eq=False)
class _Waiting:
    context: Any
    since: float


class ResponseSender:
    """Watches answers until gRPC has got rid of them. For one event loop.

    seconds: that one may wait for its reader.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[_Waiting, None] = {}  # oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    async def turn(self, message: Any) -> None:
        """Wait until a message may be given to gRPC, which is to follow at once.

        A large one has the event loop to itself while it is copied. Before the next, what has arrived meanwhile gets as
        much time: so nobody waits for the copies of several.
        """
        if await self._took_turn(message):
            self._give_back_turn()

    async def _took_turn(self, message: Any) -> bool:
        if not isinstance(message, bytes) or len(message) < _LARGE:
            return False
        return await self._turn.acquire()

    def _give_back_turn(self) -> None:
        """Once what is under way on the event loop now, or is the next that it does, has taken its time."""
        loop = asyncio.get_running_loop()
        loop.call_soon(self._copied, loop.time())

    def _copied(self, since: float) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(loop.time() - since, self._turn.release)

    def watch(self, context: Any) -> Callable[[], None]:
        """Begin to watch a message that is about to be sent; gives what is to be called once it was."""
        waiting = _Waiting(context, time.monotonic())
        self._waiting[waiting] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds / _LOOKS, self._look)
        if len(self._waiting) > _MOST:
            self._close(next(iter(self._waiting)))
        return lambda: self._waiting.pop(waiting, None)

    async def write(self, context: Any, message: Any) -> None:
        """Send one message of a stream, and watch it."""
        large = await self._took_turn(message)
        # gRPC frees what it sends only where it may finish: not where the call is cancelled meanwhile.
        writing = asyncio.shield(context.write(message))
        if large:
            self._give_back_turn()
        sent = self.watch(context)
        try:
            await writing
        finally:
            sent()
            del writing  # it has what it failed with, whose traceback has this frame

    def _look(self) -> None:
        late = time.monotonic() - self._seconds
        for waiting in [each for each in self._waiting if each.since <= late]:
            self._close(waiting)
        again = bool(self._waiting)
        self._timer = asyncio.get_running_loop().call_later(self._seconds / _LOOKS, self._look) if again else None

    def _close(self, waiting: _Waiting) -> None:
        del self._waiting[waiting]
        peer = waiting.context.peer()
        if peer not in self._closing:
            logger.warning("a connection is closed: its caller does not read what it asked for")
            closing = self._closing[peer] = asyncio.create_task(asyncio.to_thread(hang_up, peer))
            closing.add_done_callback(lambda _: self._closing.pop(peer))


def hang_up(peer: str) -> None:
    """Close this process's connections to a peer, as gRPC writes it: `ipv4:10.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    address, _, port = unquote(peer).partition(":")[2].rpartition(":")
    wanted = (address.strip("[]"), int(port))
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # of what is closed meanwhile
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as one:
                    if _peer_of(one) == wanted:
                        one.shutdown(socket.SHUT_RDWR)


def _peer_of(one: socket.socket) -> tuple[str, int] | None:
    if one.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    host, port = one.getpeername()[:2]
    return host.removeprefix("::ffff:"), port  # as gRPC's sockets, which take both families, have the older one
