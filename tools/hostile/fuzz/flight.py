"""Many calls in flight over a few connections, each of its own method, with deadlines, cancellations and hang-ups."""

import heapq
import random
import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError, TooManyStreamsError

from benchmarks.load import OK
from hostile.fuzz.requests import Planned
from tests.hostile.wire import Wire

_UNKNOWN, _INTERNAL, _UNAVAILABLE = 2, 13, 14
_CONNECTIONS = 6
_HANGS_UP = 1 / 5000
_LONGEST = 60.0  # seconds that any call may take, however loaded the machine: what takes longer hangs
CANCELLED_BY_US, HUNG_UP, NO_END = -1, -2, -3


@dataclass(frozen=True)
class Over:
    """A call that is over. status: gRPC's, or one of the negative ones above. data: of a golden call.

    seconds: from when it was sent, where it was not given up.
    """

    planned: Planned
    status: int
    trailers: bytes = b""
    data: bytes = b""
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        """Whether the server failed, by its own account or by leaving the call without an end."""
        if self.status == NO_END:
            return True
        return self.status in (_INTERNAL, _UNKNOWN) and not self.planned.framed_badly


class _Wire(Wire):
    """A connection that keeps the ends of its calls: stream, status, trailers, answer."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.waiting: deque[Planned] = deque()
        self.rest: dict[int, memoryview] = {}
        self.data: dict[int, bytearray] = {}
        self.over: list[tuple[int, int, bytes, bytes]] = []

    def start(self, planned: Planned) -> int | None:
        """Begin a call; gives its stream, or None where the server takes no more at the same time."""
        timeout = {} if planned.timeout is None else {"grpc_timeout": f"{round(planned.timeout * 1000)}m"}
        try:
            stream = self.begin(planned.method, **timeout)
        except TooManyStreamsError:
            return None
        self.rest[stream] = memoryview(planned.body)
        if planned.golden is not None:
            self.data[stream] = bytearray()
        self.send(stream)
        return stream

    def send(self, stream: int) -> None:
        """Send what the server's windows allow."""
        data = self.rest.pop(stream)
        if not data:
            self.end(stream)
        elif left := data[self.put(stream, data, end=True) :]:
            self.rest[stream] = left

    def receive(self) -> list[tuple[int, int, bytes, bytes]]:
        """Read what has arrived, send what was kept back, and give the calls that ended. Never blocks."""
        try:
            self.pump(0)
        except ProtocolError:
            self.gone = True
        for stream in list(self.rest):
            self.send(stream)
        over, self.over = self.over, []
        return over

    def cancel(self, stream: int) -> None:
        """Give a call up, as a client does whose deadline has passed."""
        self.rest.pop(stream, None)
        self.data.pop(stream, None)
        self.reset(stream, ErrorCodes.CANCEL)

    def note(self, event: Event) -> None:
        match event:
            case DataReceived():
                self.take(event)
                if event.stream_id in self.data:
                    self.data[event.stream_id] += event.data
            case StreamReset(error_code=ErrorCodes.REFUSED_STREAM):
                # As gRPC's clients have it whose retries are off: nothing is sent again, and so every refusal counts.
                self._ended(event.stream_id, _UNAVAILABLE)
            case StreamReset():
                self._ended(event.stream_id, _INTERNAL)
            case ResponseReceived(stream_ended=ended) | TrailersReceived(stream_ended=ended) if ended:
                found = dict(event.headers)
                said = b" ".join(b": ".join(each) for each in event.headers)
                self._ended(event.stream_id, int(found.get(b"grpc-status", _UNKNOWN)), said)
            case ConnectionTerminated():
                self.gone = True

    def _ended(self, stream: int, status: int, trailers: bytes = b"") -> None:
        self.rest.pop(stream, None)
        self.over.append((stream, status, trailers, bytes(self.data.pop(stream, b""))))


@dataclass
class Flight:
    """Keeps so many calls under way. target: of the server. width: calls in flight."""

    target: str
    width: int
    chance: random.Random
    over: Callable[[Over], None]
    hung_up: int = 0
    _wires: list[_Wire] = field(default_factory=list)
    _under_way: dict[tuple[_Wire, int], tuple[Planned, float]] = field(default_factory=dict)
    _timers: list[tuple[float, int, tuple[_Wire, int]]] = field(default_factory=list)

    def run(self, calls: Iterator[Planned]) -> None:
        """Make calls until there are none left, and wait for the last. Raises: ConnectionError where the server is
        gone.
        """
        self._wires = [_Wire(self.target) for _ in range(_CONNECTIONS)]
        more = True
        try:
            while more or self._count():
                while more and self._count() < self.width:
                    planned = next(calls, None)
                    if planned is None:
                        more = False
                        break
                    self._begin(planned)
                self._wait()
        finally:
            for wire in self._wires:
                wire.close()

    @property
    def under_way(self) -> list[Planned]:
        """The calls that have no end yet."""
        return [planned for planned, _ in self._under_way.values()]

    def _count(self) -> int:
        return len(self._under_way) + sum(len(each.waiting) for each in self._wires)

    def _begin(self, planned: Planned) -> None:
        if self.chance.random() < _HANGS_UP:
            self._replace(self.chance.choice(self._wires), CANCELLED_BY_US)
        self._start(self.chance.choice(self._wires), planned)

    def _start(self, wire: _Wire, planned: Planned) -> None:
        stream = wire.start(planned)
        if stream is None:
            wire.waiting.append(planned)
            return
        self._under_way[wire, stream] = (planned, time.monotonic())
        after = _LONGEST if planned.cancelled_after is None else planned.cancelled_after
        heapq.heappush(self._timers, (time.monotonic() + after, planned.number, (wire, stream)))

    def _wait(self) -> None:
        sockets = {each.socket: each for each in self._wires}
        due = min(0.05, max(0.0, self._timers[0][0] - time.monotonic())) if self._timers else 0.05
        readable, _, _ = select.select(list(sockets), [], [], due)
        for each in readable:
            self._receive(sockets[each])
        while self._timers and self._timers[0][0] <= time.monotonic():
            self._give_up(*heapq.heappop(self._timers)[2])

    def _receive(self, wire: _Wire) -> None:
        for stream, status, trailers, data in wire.receive():
            if (found := self._under_way.pop((wire, stream), None)) is not None:
                planned, begun = found
                data = data if status == OK else b""
                self.over(Over(planned, status, trailers, data, time.monotonic() - begun))
        if wire.gone:  # it may end a connection that it was sent nonsense on, but no other
            self._replace(wire, HUNG_UP)
            self.hung_up += 1
            return
        for _ in range(len(wire.waiting)):
            self._start(wire, wire.waiting.popleft())

    def _give_up(self, wire: _Wire, stream: int) -> None:
        found = self._under_way.pop((wire, stream), None)
        if found is not None:
            wire.cancel(stream)
            planned, _ = found
            self.over(Over(planned, CANCELLED_BY_US if planned.cancelled_after is not None else NO_END))

    def _replace(self, wire: _Wire, status: int) -> None:
        """Hang up, and connect again."""
        wire.close()
        self._wires[self._wires.index(wire)] = _Wire(self.target)
        for call in [each for each in self._under_way if each[0] is wire]:
            planned, _ = self._under_way.pop(call)
            self.over(Over(planned, status))
        for planned in wire.waiting:
            self.over(Over(planned, status))
