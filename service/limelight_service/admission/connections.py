"""Orders the calls of many connections: each has a share of the server, and waits in a queue of its own beyond it.

HTTP/2's limit on streams could do it too, and was what did it: but gRPC's core counts a stream until its memory is
free, clients until its answer is there, and what a client sends between the two fails (RST_STREAM, REFUSED_STREAM). So
clients may open as many streams as they like, and the order is made here.
"""

from dataclasses import dataclass, field

from limelight_service.admission.turns import Turns
from limelight_service.errors import QueueFullError
from limelight_service.observability.observer import Observer, Rejection

_RETRY_AFTER = 1.0  # seconds, since nobody knows how long it will take


@dataclass(eq=False)
class _Connection:
    """The calls of one connection. inside: those that have been admitted and have not ended. waiting: oldest first."""

    inside: int = 0
    waiting: Turns[None] = field(default_factory=Turns)


class ConnectionQueues:
    """Admits at most so many calls of each connection at the same time; further ones wait. For one event loop.

    share: calls of one connection that are admitted at the same time. most: calls that wait, of all connections
    together. Where as many wait, the newest of the connection with the longest queue is refused, so that a connection
    that asks for little is not kept out by one that asks for much.
    """

    def __init__(self, share: int, most: int, observer: Observer) -> None:
        self._share = share
        self._most = most
        self._observer = observer
        self._connections: dict[str, _Connection] = {}

    @property
    def waiting(self) -> int:
        """Number of waiting calls, over all connections."""
        return sum(len(each.waiting) for each in self._connections.values())

    def admitted(self, peer: str) -> "_Admitted":
        """Wait for a connection's share, and hold a part of it for the length of an `async with` block.

        Args:
            peer: the connection's other end, as gRPC writes it.

        Raises:
            QueueFullError: as many calls wait as may.
        """
        return _Admitted(self, peer)

    async def _enter(self, peer: str) -> _Connection:
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = _Connection()
        if connection.inside < self._share:
            connection.inside += 1
            return connection
        try:
            if self.waiting >= self._most:
                self._make_room(connection)
            await connection.waiting.wait(None, lambda: self._pass_on(connection))
        except BaseException:
            self._forget(peer, connection)
            raise
        return connection

    def _leave(self, peer: str, connection: _Connection) -> None:
        self._pass_on(connection)
        self._forget(peer, connection)

    def _forget(self, peer: str, connection: _Connection) -> None:
        if not connection.inside:
            self._connections.pop(peer, None)

    def _make_room(self, arriving: _Connection) -> None:
        longest = max(self._connections.values(), key=lambda each: len(each.waiting))
        if len(longest.waiting) <= len(arriving.waiting) + 1:
            raise self._full()
        longest.waiting.refuse_newest(self._full())

    def _pass_on(self, connection: _Connection) -> None:
        """Give a place to the connection's oldest call that waits."""
        if not connection.waiting.give():
            connection.inside -= 1

    def _full(self) -> QueueFullError:
        self._observer.rejected(Rejection.QUEUE_FULL, 1)
        return QueueFullError(f"{self.waiting} calls wait already; try again later", retry_after=_RETRY_AFTER)


class _Admitted:
    """A call's part of its connection's share. A generator would cost each call ten times as much."""

    __slots__ = ("_connection", "_peer", "_queues")

    def __init__(self, queues: ConnectionQueues, peer: str) -> None:
        self._queues, self._peer = queues, peer
        self._connection: _Connection | None = None

    async def __aenter__(self) -> None:
        self._connection = await self._queues._enter(self._peer)

    async def __aexit__(self, *_: object) -> None:
        assert self._connection is not None
        self._queues._leave(self._peer, self._connection)
