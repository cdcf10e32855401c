"""An engine in another process, as a frontend uses it."""

import asyncio
import logging
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from limelight_service.admission.window import Window
from limelight_service.errors import ModelUnavailableError, error_of
from limelight_service.ipc import wire
from limelight_service.ipc.boundary import GenerationEvent, InferenceRequest, RowResult, StreamEvent, WaitEstimate
from limelight_service.ipc.client import ModelListener
from limelight_service.ipc.connection import Connection
from limelight_service.repository.catalogue import State

T = TypeVar("T")

logger = logging.getLogger(__name__)

ANSWER, GENERATE, STREAM = range(3)  # modes of `wire.Submit`
_MOST_ROWS = 4096  # handed to the engine before it has answered: more than its queue holds
_TAKEN = 8  # events of a stream after which the engine is told
_SILENCE, _LONG_SILENCE = 2.5, 5.0  # seconds without a sign of life: hand on no more calls; report NOT_SERVING
_LOOK = 0.5
_STARTS = 2.0  # seconds in which a process that ended has a successor, about


class _Call:
    """A call that the engine has not ended. left: rows without an answer. events: messages, or an error at the end."""

    __slots__ = ("events", "left", "number", "rows")

    def __init__(self, number: int, rows: int) -> None:
        self.number = number
        self.rows = self.left = rows
        self.events: asyncio.Queue[Any] = asyncio.Queue()


class _Told:
    """The engine's last wait estimate for one version. since: rows handed on here since then."""

    __slots__ = ("at", "estimate", "since")

    def __init__(self, estimate: WaitEstimate) -> None:
        self.estimate, self.at, self.since = estimate, time.monotonic(), 0


class RemoteEngine:
    """An engine behind a connection, and behind the next one where its process was replaced. For one event loop.

    arriving_bytes: of tensors that the engine is handed at most before it has answered. on_lost: called once the
    connection is lost.
    """

    def __init__(self, arriving_bytes: int) -> None:
        self._connection: Connection | None = None
        self._unpacker = wire.Unpacker(wire.ToFrontend)
        self._listener: ModelListener | None = None
        self._calls: dict[int, _Call] = {}
        self._rows: dict[tuple[str, int], int] = {}
        self._waits: dict[tuple[str, int], _Told] = {}
        self._window = Window(_MOST_ROWS, arriving_bytes)
        self._number = 0
        self._heard = 0.0
        self._silent = False
        self._starts = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.on_lost: Callable[[], None] = lambda: None

    @property
    def is_attached(self) -> bool:
        """True while there is a connection."""
        return self._connection is not None

    def listen(self, listener: ModelListener) -> None:
        """As `EngineClient.listen`; to be called before `attach`."""
        self._listener = listener

    def attach(self, end: socket.socket) -> None:
        """Use this connection from now on."""
        if self._connection is not None:
            self._lost(self._connection)
        connection = Connection(end, self._receive, lambda: self._lost(connection))
        self._connection = connection
        self._is_heard()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def starts_in(self, seconds: float) -> None:
        """Ask callers to come back so much later while there is no process."""
        self._starts = time.monotonic() + seconds

    def close(self) -> None:
        """Use the engine no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def wait(self, name: str, version: int) -> WaitEstimate:
        """Give the last estimate of the engine, less the time since, with the rows handed on since."""
        told = self._waits.get((name, version))
        if told is None:
            return WaitEstimate()
        estimate, elapsed = told.estimate, time.monotonic() - told.at
        seconds = max(0.0, estimate.seconds + told.since * estimate.per_row - elapsed)
        return WaitEstimate(seconds, estimate.per_row)

    def under_way(self, name: str, version: int) -> int:
        """Count rows handed on that have not ended."""
        return self._rows.get((name, version), 0)

    async def answer(self, request: InferenceRequest, make: Callable[[int, RowResult], T]) -> list[T]:
        """As `EngineClient.answer`."""
        results: list[Any] = [None] * len(request.rows)
        async with self._begun(ANSWER, request) as call:
            for _ in request.rows:
                message = await _next(call)
                results[message.index] = make(message.index, message.content)
        return results

    async def generate(self, request: InferenceRequest) -> AsyncGenerator[GenerationEvent, None]:
        """As `EngineClient.generate`."""
        async with self._begun(GENERATE, request) as call:
            taken = 0
            while True:
                message = await _next(call)
                yield message.content
                if isinstance(message.content, RowResult):
                    return
                taken = self._take(call, taken)

    async def stream(self, request: InferenceRequest, chunk_bytes: int) -> AsyncGenerator[StreamEvent, None]:
        """As `EngineClient.stream`."""
        async with self._begun(STREAM, request, chunk_bytes) as call:
            while not isinstance(message := await _next(call), wire.StreamEnded):
                yield message.content
                self._send(wire.Taken(call.number, 1))

    def release(self, name: str, version: int) -> None:
        """As `EngineClient.release`."""
        self._send(wire.Released(name, version))

    @asynccontextmanager
    async def _begun(self, mode: int, request: InferenceRequest, chunk_bytes: int = 0) -> AsyncIterator[_Call]:
        """Hand a call on once the engine has room for it, until it ends."""
        size = sum(array.nbytes for row in request.rows for array in row.tensors.values())
        await self._window.enter(size)
        key = request.model, request.version
        self._number += 1
        call = _Call(self._number, len(request.rows))
        self._rows[key] = self._rows.get(key, 0) + call.rows
        try:
            if self._connection is None:
                raise self._unavailable()
            self._calls[call.number] = call
            self._send(wire.submit(call.number, mode, request, chunk_bytes))
            if (told := self._waits.get(key)) is not None:
                told.since += call.rows
            yield call
        finally:
            self._window.leave(size)
            self._rows[key] -= call.rows
            if not self._rows[key]:
                del self._rows[key]
            if self._calls.pop(call.number, None) is not None:
                self._send(wire.Cancel(call.number))

    def _take(self, call: _Call, taken: int) -> int:
        if taken + 1 < _TAKEN:
            return taken + 1
        self._send(wire.Taken(call.number, taken + 1))
        return 0

    def _send(self, message: wire.Wire) -> None:
        if self._connection is not None:
            self._connection.send(wire.pack(message))

    def _receive(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        message = self._unpacker.unpack(data, descriptors)
        listener = self._listener
        assert listener is not None
        match message:
            case wire.Waits():
                self._is_heard()
                self._learn(message.models)
            case wire.ModelChanged():
                state = State(message.state)
                listener.model_changed(message.name, message.version, state, message.reason, message.served)
            case wire.ModelGone():
                listener.model_gone(message.name, message.version)
            case wire.Loaded():
                listener.loaded()
            case _:
                self._deliver(message)

    def _deliver(self, message: Any) -> None:
        call = self._calls.get(message.call)
        if call is None:  # it was cancelled
            return
        if isinstance(message, wire.Failure | wire.StreamEnded):
            del self._calls[call.number]
        elif isinstance(message.content, RowResult):
            call.left -= 1
            if not call.left:
                del self._calls[call.number]
        call.events.put_nowait(message)

    def _learn(self, models: dict[str, tuple[float, float]]) -> None:
        """Take the estimates of every version for which anything waits; of the others nothing does."""
        self._waits = {_version(key): _Told(WaitEstimate(*estimate)) for key, estimate in models.items()}

    def _is_heard(self) -> None:
        self._heard = time.monotonic()
        self._window.set_open(True)
        self._set_silent(False)

    def _look(self) -> None:
        """Watch for signs of life: where the engine's event loop stands still, nothing else tells."""
        self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)
        if self._connection is None:
            return
        silence = time.monotonic() - self._heard
        if silence > _SILENCE:
            self._window.set_open(False)
        if silence > _LONG_SILENCE:
            self._set_silent(True)

    def _set_silent(self, silent: bool) -> None:
        if silent is not self._silent:
            self._silent = silent
            if silent:
                logger.error("an engine has not answered for %g s; reporting NOT_SERVING", _LONG_SILENCE)
            if self._listener is not None:
                self._listener.engine_silent(silent)

    def _lost(self, connection: Connection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        connection.close()
        self._waits.clear()
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call.events.put_nowait(self._unavailable())
        self._window.set_open(True)  # calls that wait are told as well
        if self._listener is not None:
            self._listener.engine_lost()
        self.on_lost()

    def _unavailable(self) -> ModelUnavailableError:
        after = max(0.0, self._starts - time.monotonic()) + _STARTS
        return ModelUnavailableError("an engine is starting; try again soon", retry_after=after)


async def _next(call: _Call) -> Any:
    """Wait for the next message of a call. Raises: its error."""
    message = await call.events.get()
    if isinstance(message, wire.Failure):
        raise error_of(message.error)
    if isinstance(message, Exception):
        raise message
    return message


def _version(key: str) -> tuple[str, int]:
    name, _, version = key.rpartition("/")
    return name, int(version)
