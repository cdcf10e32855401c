"""From the wire to a message: a request is received, counted, parsed and held until its call ends, within bounds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from bundle.errors import InputError, TooLargeError
from service.rpc.budget import Budget
from service.rpc.fields import count_fields
from service.rpc.reception import Reception

_Kind = TypeVar("_Kind", bound=Message)
# Up to here a message takes less than a millisecond, whatever is in it.
_PARSED_AT_ONCE = 16 * 1024
# A call that is cancelled while its request arrives has no request first, and is cancelled next.
_CANCELLED_BY_THEN = 0.02


class Reading:
    """Reads requests. For one event loop.

    held: the budget of requests in flight. most_fields: that a request may have, everything inside counted. large: so
    many requests so far that took memory worth giving back, whatever became of them.
    """

    def __init__(self, reception: Reception, held: Budget, most_fields: int) -> None:
        self._reception = reception
        self._held = held
        self._most_fields = most_fields
        self.large = 0
        self._thread = ThreadPoolExecutor(1, "parse")  # one large request at a time takes turns with the event loop

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False)

    @asynccontextmanager
    async def request(
        self, kind: type[_Kind], context: Any, end: Callable[[Exception], Awaitable[None]]
    ) -> AsyncIterator[_Kind]:
        """Read a call's one request, and hold it for the length of a block. end: as `Reception.message` has it.

        Raises: InputError where it is no such message, or has too many fields; TooLargeError where none was received;
        QueueFullError where others hold too much.
        """
        data = await self._reception.message(context, end)
        if data is None:
            await asyncio.sleep(_CANCELLED_BY_THEN)
            raise TooLargeError("", "the request is larger than this server takes, or there is none")
        with self._held.hold(len(data)):
            if len(data) <= _PARSED_AT_ONCE:
                message = _parsed(kind, data)
            else:
                self.large += 1
                loop = asyncio.get_running_loop()
                message = await loop.run_in_executor(self._thread, _counted, kind, data, self._most_fields)
            del data
            yield message


def _counted(kind: type[_Kind], data: bytes, most_fields: int) -> _Kind:
    count_fields(kind.DESCRIPTOR, data, most_fields)
    return _parsed(kind, data)


def _parsed(kind: type[_Kind], data: bytes) -> _Kind:
    """Parse a message. gRPC itself would answer INTERNAL where that fails, and fill the log with it."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InputError("", f"the request is not a message of type {kind.DESCRIPTOR.full_name}") from error
