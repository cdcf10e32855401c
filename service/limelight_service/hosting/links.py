"""The frontends of an engine that are processes of their own: what they ask, and what they are told."""

import asyncio
import logging
import socket
import time
from functools import partial
from typing import Any

from limelight_bundle.errors import LimelightError
from limelight_service.engine.jobs import Delivered, Outcome
from limelight_service.errors import InferenceError, record_of
from limelight_service.hosting.host import EngineHost, Submission
from limelight_service.hosting.store import Status
from limelight_service.ipc import wire
from limelight_service.ipc.boundary import ChunkResult, InferenceRequest, RowResult, StreamBegun, TokenResult
from limelight_service.ipc.connection import Connection, Packet
from limelight_service.ipc.remote import GENERATE, STREAM
from limelight_service.repository.catalogue import State
from limelight_service.repository.usage import Releases

logger = logging.getLogger(__name__)

_HEARTBEAT = 0.25  # seconds between signs of life
_TOLD = 0.005  # seconds between wait estimates while results are sent
_AHEAD = 32  # events of a stream that are sent before the frontend has taken any
_CHUNKS_AHEAD = 4


class FrontendLinks:
    """All frontends of one engine. For one event loop."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._links: set[_FrontendLink] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._told = 0.0
        self._is_loaded = False
        host.store.on_status = self._tell_status
        host.store.on_gone = self._tell_gone
        host.store.released = self._released

    def attach(self, end: socket.socket) -> None:
        """Serve a frontend at the other end."""
        link = _FrontendLink(self._host, end, self._detach, self._tell_waits)
        self._links.add(link)
        for status in self._host.store.catalogue.statuses():
            link.send(wire.pack(_changed(status)))
        if self._is_loaded:
            link.send(wire.pack(wire.Loaded()))
        if self._timer is None:
            self._beat()

    def loaded(self) -> None:
        """Tell every frontend, now and later, that the models of a start are there."""
        self._is_loaded = True
        self._send_all(wire.pack(wire.Loaded()))

    def close(self) -> None:
        """Serve no frontend any more."""
        if self._timer is not None:
            self._timer.cancel()
        for link in list(self._links):
            link.close()

    def _tell_status(self, status: Status) -> None:
        if status.state is State.FAILED:
            self._expect_release(status.name, status.version)
        self._send_all(wire.pack(_changed(status)))

    def _tell_gone(self, name: str, version: int) -> None:
        self._expect_release(name, version)
        self._send_all(wire.pack(wire.ModelGone(name, version)))

    def _expect_release(self, name: str, version: int) -> None:
        for link in self._links:
            link.releases.expect((name, version))

    def _send_all(self, packet: Packet) -> None:
        for link in self._links:
            link.send(packet)

    def _beat(self) -> None:
        self._tell_waits(at_once=True)
        self._timer = asyncio.get_running_loop().call_later(_HEARTBEAT, self._beat)

    def _tell_waits(self, *, at_once: bool = False) -> None:
        """Tell frontends the wait estimates, now and then."""
        now = time.monotonic()
        if at_once or now - self._told >= _TOLD:
            self._told = now
            waits = {key: (each.seconds, each.per_row) for key, each in self._host.waits().items()}
            self._send_all(wire.pack(wire.Waits(waits)))

    def _detach(self, link: "_FrontendLink") -> None:
        self._links.discard(link)

    async def _released(self, name: str, version: int) -> None:
        """Wait until every frontend has released a version, or is gone."""
        await asyncio.gather(*(each.releases.released((name, version)) for each in self._links))


class _FrontendLink:
    """One frontend."""

    def __init__(self, host: EngineHost, end: socket.socket, detach: Any, tell_waits: Any) -> None:
        self._host = host
        self._detach = detach
        self._tell_waits = tell_waits
        self._unpacker = wire.Unpacker(wire.ToEngine)
        self._calls: dict[int, Submission] = {}
        self._streams: dict[int, tuple[asyncio.Task[None], asyncio.Semaphore]] = {}
        self._unread: dict[int, int] = {}  # tokens of a generation that the frontend has not taken
        self.releases: Releases[tuple[str, int]] = Releases()
        self._connection = Connection(end, self._receive, self._lost)

    def send(self, packet: Packet) -> None:
        """Send a packet."""
        self._connection.send(packet)

    def close(self) -> None:
        """End every call, and close the connection."""
        self._connection.close()
        self._lost()

    def _lost(self) -> None:
        self._detach(self)
        for submission in self._calls.values():
            submission.close()
        self._calls.clear()
        for task, _ in self._streams.values():
            task.cancel()
        self.releases.release_all()

    def _receive(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        match message := self._unpacker.unpack(data, descriptors):
            case wire.Submit():
                self._submit(message)
            case wire.Cancel():
                self._cancel(message.call)
            case wire.Taken():
                self._taken(message.call, message.events)
            case wire.Released():
                self.releases.release((message.name, message.version))

    def _submit(self, message: wire.Submit) -> None:
        number = message.call
        receive = partial(self._receive_outcome, number)
        try:
            request = wire.request_of(message)
            if message.mode == STREAM:
                credit = asyncio.Semaphore(_CHUNKS_AHEAD)
                task = asyncio.create_task(self._stream(number, request, message.chunk_bytes, credit))
                self._streams[number] = task, credit
                return
            by_token = message.mode == GENERATE
            submission = self._host.submit(request, partial(_packed_row, number), receive, by_token=by_token)
            self._calls[number] = submission
            if by_token:
                self._unread[number] = 0
                self.send(wire.pack(wire.Event(number, 0, submission.begun())))
        except LimelightError as error:
            self._fail(number, error)
        except Exception:
            logger.exception("a call could not be taken on")
            self._fail(number, InferenceError("the engine could not take the call on"))

    def _receive_outcome(self, number: int, index: int, outcome: Outcome) -> None:
        submission = self._calls.get(number)
        if submission is None:
            return
        if not isinstance(outcome, Delivered):
            self._fail(number, outcome)
        else:
            self.send(outcome.value)
            if outcome.last and not submission.call.open:
                self._end(number)
            elif number in self._unread:
                self._unread[number] += 1
                if self._unread[number] <= _AHEAD:
                    submission.sent()
        self._tell_waits()

    def _fail(self, number: int, error: LimelightError) -> None:
        self.send(wire.pack(wire.Failure(number, record_of(error))))
        self._end(number)

    def _end(self, number: int) -> None:
        self._unread.pop(number, None)
        submission = self._calls.pop(number, None)
        if submission is not None:
            submission.close()

    def _cancel(self, number: int) -> None:
        self._end(number)
        if number in self._streams:
            self._streams[number][0].cancel()

    def _taken(self, number: int, events: int) -> None:
        if number in self._streams:
            for _ in range(events):
                self._streams[number][1].release()
        elif number in self._unread:
            before = self._unread[number]
            self._unread[number] -= events
            for _ in range(max(0, before - max(_AHEAD, self._unread[number]))):
                self._calls[number].sent()

    async def _stream(
        self, number: int, request: InferenceRequest, chunk_bytes: int, credit: asyncio.Semaphore
    ) -> None:
        try:
            events = self._host.stream(request, chunk_bytes, partial(_packed_event, number))
            try:
                async for packet in events:
                    await credit.acquire()
                    self.send(packet)
            finally:
                await events.aclose()
            self.send(wire.pack(wire.StreamEnded(number)))
        except LimelightError as error:
            self.send(wire.pack(wire.Failure(number, record_of(error))))
        except Exception:
            logger.exception("a stream of maps failed")
            self.send(wire.pack(wire.Failure(number, record_of(InferenceError("the stream of maps failed")))))
        finally:
            del self._streams[number]


def _changed(status: Status) -> wire.ModelChanged:
    served = None if status.model is None else status.model.served
    return wire.ModelChanged(status.name, status.version, status.state.value, status.reason, served)


def _packed_row(number: int, index: int, result: RowResult | TokenResult) -> Packet:
    return wire.pack(wire.Event(number, index, result))


def _packed_event(number: int, event: StreamBegun | ChunkResult) -> Packet:
    return wire.pack(wire.Event(number, 0, event))
