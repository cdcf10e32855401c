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
class Connection:
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
        self._connections: dict[str, Connection] = {}

    @property
    def waiting(self) -> int:
        """Number of waiting calls, over all connections."""
        return sum(len(each.waiting) for each in self._connections.values())

    def enter(self, peer: str) -> "Connection | None":
        """Take a part of a connection's share; None where none is left, and `wait` has to.

        Args:
            peer: the connection's other end, as gRPC writes it.
        """
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = Connection()
        if connection.inside >= self._share:
            return None
        connection.inside += 1
        return connection

    async def wait(self, peer: str) -> "Connection":
        """Wait for a part of a connection's share.

        Raises:
            QueueFullError: as many calls wait as may.
        """
        connection = self._connections[peer]
        try:
            if self.waiting >= self._most:
                self._make_room(connection)
            await connection.waiting.wait(None, lambda: self._pass_on(connection))
        except BaseException:
            self._forget(peer, connection)
            raise
        return connection

    def leave(self, peer: str, connection: "Connection") -> None:
        """Give back a part of a connection's share."""
        if connection.waiting:
            self._pass_on(connection)
        else:
            connection.inside -= 1
            if not connection.inside:
                self._forget(peer, connection)

    def _forget(self, peer: str, connection: Connection) -> None:
        if not connection.inside:
            self._connections.pop(peer, None)

    def _make_room(self, arriving: Connection) -> None:
        longest = max(self._connections.values(), key=lambda each: len(each.waiting))
        if len(longest.waiting) <= len(arriving.waiting) + 1:
            raise self._full()
        longest.waiting.refuse_newest(self._full())

    def _pass_on(self, connection: Connection) -> None:
        """Give a place to the connection's oldest call that waits."""
        if not connection.waiting.give():
            connection.inside -= 1

    def _full(self) -> QueueFullError:
        self._observer.rejected(Rejection.QUEUE_FULL, 1)
        return QueueFullError(f"{self.waiting} calls wait already; try again later", retry_after=_RETRY_AFTER)
