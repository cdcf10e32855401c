"""Between the process that takes calls and the one that answers them: frames both ways, over a socket, and over memory
that both share where they are large.
"""

import asyncio
import os
import pickle
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

from service.apart.region import SIZE, Piece, Region
from service.rpc.room import Placed, Written

_HEAD = struct.Struct("<BQIQq")  # kind, call, bytes of what is said about the body, of the body, its place (or _HERE)
_HERE = -1
_ALONE = 64 * 1024  # from here on a body is written by itself, and not copied together with others
_SHARED = 256 * 1024  # and from here on to memory: a socket takes so much at a time, and has both ends wait
_SELDOM = 1e-3  # seconds since the last was written
_LONG = 1e-3  # seconds of a copy after which others have their turn
_ASIDE = 8 * 2**20  # and from here on a thread copies: pages that were never used take most of the time
_PATIENT = 0.05  # seconds that a frame which nobody waits for stays here at most
_QUIET = 5.0  # seconds after which memory that nothing is in is given back
_NOTHING = pickle.dumps(None)


class Kind(IntEnum):
    """What a frame is. From the one that takes calls: CALL, TAKEN, ENDED, TOKENS, ASKED; from the other: the rest.

    CALL: a call comes, with its request. TAKEN: so many messages of its stream, and bytes, have been taken. ENDED: it
    has ended, whatever became of it: its answer is sent, or nobody wants it. TOKENS: the names of those there are.
    ASKED: whether it is there. MESSAGE: one of a stream. ANSWER: the answer, or the end of a stream. FAILED: a status
    instead. DROPPED: the call had ended before there was either. READY: whether any model answers, and what calls like
    some of those under way would find now; told again to who asks.
    """

    CALL = 0
    TAKEN = 1
    ENDED = 2
    TOKENS = 3
    MESSAGE = 4
    ANSWER = 5
    FAILED = 6
    READY = 7
    ASKED = 8
    DROPPED = 9
    FREED = 10  # what was at a place in memory has been read; of the link's own, in both directions


Receive = Callable[[Kind, int, Any, bytes], None]
_Frame = tuple[Kind, Any, bytes, int, int]  # what is said, the body, and its size and place where it is in memory


@dataclass(frozen=True)
class End:
    """One end of a link before anybody uses it. written, read: descriptors of regions, where there are some."""

    socket: socket.socket
    written: int | None
    read: int | None

    @classmethod
    def pair(cls, size: int = SIZE) -> tuple["End", "End"]:
        """Make both ends of a link. size: of each of its regions."""
        (one, other), there, back = socket.socketpair(), Region.create(size), Region.create(size)
        return cls(one, there, back), cls(other, *(None if each is None else os.dup(each) for each in (back, there)))

    @classmethod
    def of(cls, descriptors: Sequence[int]) -> "End":
        """Make an end of the descriptors that a process was started with."""
        written, read = descriptors[1:] or (None, None)
        return cls(socket.socket(fileno=descriptors[0]), written, read)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a process needs to be started with, for this end to be its own."""
        return (self.socket.fileno(), *self._regions)

    def close(self) -> None:
        """Close it here; another process may have it."""
        self.socket.close()
        self.close_regions()

    def close_regions(self) -> None:
        """Close the regions' descriptors, which nobody needs once they are mapped."""
        for each in self._regions:
            os.close(each)

    @property
    def _regions(self) -> tuple[int, ...]:
        return tuple(each for each in (self.written, self.read) if each is not None)


class Link(asyncio.Protocol):
    """One end in use. For one event loop; both ends are this program, and nobody else has them.

    receive: called with each frame: its kind, its call, what is said about the body, and that. lost: called once there
    is no other end.
    """

    def __init__(self, receive: Receive, lost: Callable[[], None], written: Region | None, read: Region | None) -> None:
        self._receive = receive
        self._lost = lost
        self._written = written
        self._read = read
        self._quiet: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._due = False
        self._later: asyncio.TimerHandle | None = None
        self._wrote = 0.0
        self._rest = b""
        self._head: tuple[Kind, int, Any, int, int] | None = None
        self._missing = 0
        self._parts: list[bytes] = []
        # Of each call with a body that a thread copies: that frame and those that came after it, and who sees to them.
        self._aside: dict[int, deque[_Frame]] = {}
        self._asides: set[asyncio.Task[None]] = set()
        self._copier = ThreadPoolExecutor(1, "link")

    @classmethod
    async def over(cls, end: End, receive: Receive, lost: Callable[[], None] = lambda: None) -> Self:
        """Use an end."""
        written, read = (None if each is None else Region(each) for each in (end.written, end.read))
        end.close_regions()
        loop = asyncio.get_running_loop()
        _, link = await loop.connect_accepted_socket(lambda: cls(receive, lost, written, read), end.socket)
        return link

    def room(self, size: int) -> Placed | None:
        """Give a place for the body of a frame, from any thread; None where there is none."""
        return None if self._written is None else self._written.take(size)

    def send(self, kind: Kind, call: int = 0, said: Any = None, body: Written = b"", *, patient: bool = False) -> None:
        """Send a frame: at once where few are sent, or else with all others of this turn of the loop.

        body: bytes, or what was written at a place of `room`. patient: it may wait for the next one, so that the other
        process is not woken for it alone. Without effect where the other end is gone.
        """
        about = _NOTHING if said is None else pickle.dumps(said)
        place = self._put(body)
        self._waiting.append(_HEAD.pack(kind, call, len(about), len(body), place) + about)
        if place == _HERE and isinstance(body, bytes) and body:
            self._waiting.append(body)
        if patient:
            if self._later is None and not self._due:
                self._later = self._loop.call_later(_PATIENT, self._write)
        elif self._loop.time() - self._wrote > _SELDOM:
            self._write()
        elif not self._due:
            self._due = True
            self._loop.call_soon(self._write)

    def close(self) -> None:
        """Close this end; what was sent before arrives."""
        self._write()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls this."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """End; asyncio calls this, also after what a frame was received with has failed."""
        for each in self._asides:
            each.cancel()
        self._copier.shutdown(wait=False)
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Take frames apart; asyncio calls this."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        place = 0
        while True:
            if self._head is None:
                if len(data) - place < _HEAD.size:
                    break
                kind, call, about, size, shared = _HEAD.unpack_from(data, place)
                end = place + _HEAD.size + about
                if len(data) < end:
                    break
                self._head = Kind(kind), call, pickle.loads(data[place + _HEAD.size : end]), size, shared
                self._missing, place = (size if shared == _HERE else 0), end
            part = data[place : place + self._missing]
            self._missing -= len(part)
            place += len(part)
            self._parts.append(part)
            if self._missing:
                return
            body = part if len(self._parts) == 1 else b"".join(self._parts)
            (kind, call, said, size, shared), self._head = self._head, None
            self._parts.clear()
            took = 0.0
            if kind is Kind.FREED:
                if self._written is not None:
                    self._written.free(call)
                    if self._quiet is None:
                        self._trim_when_quiet(self._written)
            elif call in self._aside or (size >= _ASIDE and shared != _HERE):
                self._put_aside(call, (kind, said, body, size, shared))
            else:
                began = self._loop.time()
                body = self._taken(body, size, shared)
                took = self._loop.time() - began
                self._receive(kind, call, said, body)
            if took > _LONG and self._transport is not None:
                self._transport.pause_reading()
                self._loop.call_later(took, self._go_on)
                break
        self._rest = data[place:]

    def _go_on(self) -> None:
        """Take apart what came meanwhile, after everything else on the loop has had as much time as a copy took."""
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.resume_reading()
        self.data_received(b"")

    def _taken(self, body: bytes, size: int, shared: int) -> bytes:
        """Give a body, from memory where it is there."""
        if shared == _HERE or self._read is None:
            return body
        body = self._read.get(shared, size)
        self.send(Kind.FREED, shared)
        return body

    def _put_aside(self, call: int, frame: _Frame) -> None:
        """Receive a frame once a thread has copied its body, and those of its call that come before."""
        if call in self._aside:
            self._aside[call].append(frame)
            return
        self._aside[call] = deque([frame])
        task = self._loop.create_task(self._see_to(call))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _see_to(self, call: int) -> None:
        frames = self._aside[call]
        try:
            while frames:
                kind, said, body, size, shared = frames[0]
                if shared != _HERE and self._read is not None:
                    body = await self._loop.run_in_executor(self._copier, self._read.get, shared, size)
                    self.send(Kind.FREED, shared)
                del frames[0]
                self._receive(kind, call, said, body)
        except BaseException:  # as where it fails at once
            if self._transport is not None:
                self._transport.abort()
            raise
        finally:
            del self._aside[call]

    def _put(self, body: Written) -> int:
        """Have a large body in memory, where there is room; gives where."""
        if self._written is None:
            return _HERE
        piece = body if isinstance(body, Piece) else None
        if isinstance(body, bytes) and len(body) >= _SHARED:
            piece = self._written.put(body)
        if self._written.is_touched and (piece is not None or self._quiet is None):
            self._trim_when_quiet(self._written)
        return _HERE if piece is None else piece.hand_on()

    def _trim_when_quiet(self, region: Region) -> None:
        def trim() -> None:
            self._quiet = None
            region.trim()

        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = self._loop.call_later(_QUIET, trim)

    def _write(self) -> None:
        self._due, self._wrote = False, self._loop.time()
        if self._later is not None:
            self._later.cancel()
            self._later = None
        waiting, self._waiting = self._waiting, []
        if self._transport is None or self._transport.is_closing():
            return
        small: list[bytes] = []
        for each in waiting:
            if len(each) < _ALONE:
                small.append(each)
                continue
            if small:
                self._transport.write(b"".join(small))
                small.clear()
            self._transport.write(each)
        if small:
            self._transport.write(b"".join(small))
