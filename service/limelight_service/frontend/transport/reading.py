"""From the wire to a request: it is received, parsed and held until its call ends, within bounds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.message import Message

from limelight_bundle.errors import TooLargeError
from limelight_service.admission.memory import Held, MemoryBudget
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

    async def receive(self, context: Any, end: Callable[[Exception], Awaitable[None]]) -> bytes:
        """Wait for a call's one request. end: as `UploadLimiter.message` has it. Raises: TooLargeError for none."""
        data = await self._uploads.message(context, end)
        if data is None:
            await asyncio.sleep(_CANCELLED_BY_THEN)
            raise TooLargeError("", "the request is larger than this server takes, or there is none")
        return data

    async def next_of_stream(self, context: Any, end: Callable[[Exception], Awaitable[None]]) -> bytes | None:
        """Wait for a stream's next request; None after the last. end: as `UploadLimiter.message` has it."""
        RECEIVED.get()()  # a stream may be quiet for long: others that are taken up do not wait for it
        return await self._streams.message(context, end)

    async def parsed(self, kind: type[Message], data: bytes) -> tuple[Any, Held]:
        """Parse a request; gives the memory that it takes as well, to be released at the end of its call.

        Raises: what parsing it raises; QueueFullError where others hold too much.
        """
        held = self._held.take(len(data))
        try:
            return await self._parse(kind, data), held
        except BaseException:
            held.release()
            raise
