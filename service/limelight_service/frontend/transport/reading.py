"""From the wire to a request: it is received, parsed and held until its call ends, within bounds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from google.protobuf.message import Message

from limelight_bundle.errors import TooLargeError
from limelight_service.admission.memory import MemoryBudget
from limelight_service.admission.uploads import RECEIVED, UploadLimiter

# A call that is cancelled while its request arrives has no request first, and is cancelled next.
_CANCELLED_BY_THEN = 0.02


class Reading:
    """Reads requests. For one event loop.

    uploads, streams: of calls with one request, and of streams of requests. held: the budget of requests in flight.
    parse: makes what handlers get of a request's type and bytes (`Parsing.message`); raises InputError.
    """

    def __init__(
        self,
        uploads: UploadLimiter,
        streams: UploadLimiter,
        held: MemoryBudget,
        parse: Callable[[type[Message], bytes], Awaitable[Any]],
    ) -> None:
        self._uploads = uploads
        self._streams = streams
        self._held = held
        self._parse = parse

    @asynccontextmanager
    async def request(
        self, kind: type[Message], context: Any, end: Callable[[Exception], Awaitable[None]]
    ) -> AsyncIterator[Any]:
        """Read a call's one request, and hold it for the length of a block. end: as `UploadLimiter.message` has it.

        Raises: what parsing it raises; TooLargeError where none was received; QueueFullError where others hold too
        much.
        """
        data = await self._uploads.message(context, end)
        if data is None:
            await asyncio.sleep(_CANCELLED_BY_THEN)
            raise TooLargeError("", "the request is larger than this server takes, or there is none")
        async with self.held(kind, data) as request:
            del data
            yield request

    async def next_of_stream(self, context: Any, end: Callable[[Exception], Awaitable[None]]) -> bytes | None:
        """Wait for a stream's next request; None after the last. end: as `UploadLimiter.message` has it."""
        RECEIVED.get()()  # a stream may be quiet for long: others that are taken up do not wait for it
        return await self._streams.message(context, end)

    @asynccontextmanager
    async def held(self, kind: type[Message], data: bytes) -> AsyncIterator[Any]:
        """Parse a request, and hold it for the length of a block.

        Raises: what parsing it raises; QueueFullError where others hold too much.
        """
        with self._held.hold(len(data)):
            request = await self._parse(kind, data)
            del data
            yield request
