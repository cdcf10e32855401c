"""Many calls in flight over a few connections, each of its own method, with deadlines, cancellations and hang-ups."""

import heapq
import random
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchmarks.load.plan import OK
from benchmarks.load.wire import INTERNAL, UNKNOWN, Connection, Ended, request_headers
from hostile.fuzz.requests import Planned

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
        return self.status in (INTERNAL, UNKNOWN) and not self.planned.framed_badly


@dataclass
class Flight:
    """Keeps so many calls under way. target: of the server. width: calls in flight."""

    target: str
    width: int
    chance: random.Random
    over: Callable[[Over], None]
    hung_up: int = 0
    _wires: list[Connection] = field(default_factory=list)
    _under_way: dict[tuple[Connection, int], tuple[Planned, float]] = field(default_factory=dict)
    _timers: list[tuple[float, int, tuple[Connection, int]]] = field(default_factory=list)
    _headers: dict[tuple[str, float | None], bytes] = field(default_factory=dict)

    def run(self, calls: Iterator[Planned]) -> None:
        """Make calls until there are none left, and wait for the last. Raises: ConnectionError where the server is
        gone.
        """
        self._wires = [Connection(self.target, "/") for _ in range(_CONNECTIONS)]
        more = True
        try:
            while more or self._under_way:
                while more and len(self._under_way) < self.width:
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

    def _begin(self, planned: Planned) -> None:
        if self.chance.random() < _HANGS_UP:
            self._hang_up(self.chance.randrange(len(self._wires)))
        wire = self.chance.choice(self._wires)
        kind = (planned.method, planned.timeout)
        if kind not in self._headers:
            self._headers[kind] = request_headers(self.target, planned.method, planned.timeout)
        stream = wire.send(planned.body, headers=self._headers[kind], keep=planned.golden is not None)
        self._under_way[wire, stream] = (planned, time.monotonic())
        after = _LONGEST if planned.cancelled_after is None else planned.cancelled_after
        heapq.heappush(self._timers, (time.monotonic() + after, planned.number, (wire, stream)))

    def _wait(self) -> None:
        sockets = {each.socket: each for each in self._wires}
        writing = [each.socket for each in self._wires if each.writes]
        now = time.monotonic()
        due = min(0.05, max(0.0, self._timers[0][0] - now)) if self._timers else 0.05
        readable, writable, _ = select.select(list(sockets), writing, [], due)
        for each in writable:
            sockets[each].flush()
        for each in readable:
            self._receive(sockets[each])
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self._give_up(heapq.heappop(self._timers)[2])

    def _receive(self, wire: Connection) -> None:
        try:
            for ended in wire.receive():
                self._ended(wire, ended)
        except ConnectionError:  # it may end a connection that it was sent nonsense on, but no other
            self._lost(wire)

    def _lost(self, wire: Connection) -> None:
        self._drop(wire, HUNG_UP)
        self._wires[self._wires.index(wire)] = Connection(self.target, "/")
        self.hung_up += 1

    def _ended(self, wire: Connection, ended: Ended) -> None:
        planned, begun = self._under_way.pop((wire, ended.call))
        data, seconds = wire.taken(ended.call), time.monotonic() - begun
        self.over(Over(planned, ended.status, ended.trailers, data if ended.status == OK else b"", seconds))

    def _give_up(self, call: tuple[Connection, int]) -> None:
        found = self._under_way.pop(call, None)
        if found is None:
            return
        wire, stream = call
        wire.cancel(stream)
        planned, _ = found
        self.over(Over(planned, CANCELLED_BY_US if planned.cancelled_after is not None else NO_END))

    def _hang_up(self, place: int) -> None:
        wire = self._wires[place]
        wire.close()
        self._drop(wire, CANCELLED_BY_US)
        self._wires[place] = Connection(self.target, "/")

    def _drop(self, wire: Connection, status: int) -> None:
        for call in [each for each in self._under_way if each[0] is wire]:
            planned, _ = self._under_way.pop(call)
            self.over(Over(planned, status))
