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

    def request(self, kind: type[Message], context: Any, end: Callable[[Exception], Awaitable[None]]) -> "_HeldRequest":
        """Read a call's one request, and hold it for the length of an `async with` block.

        end: as `UploadLimiter.message` has it. Raises: as `held`; TooLargeError where none was received.
        """
        return _HeldRequest(self._held, self._parse, kind, self._one(context, end))

    async def _one(self, context: Any, end: Callable[[Exception], Awaitable[None]]) -> bytes:
        data = await self._uploads.message(context, end)
        if data is None:
            await asyncio.sleep(_CANCELLED_BY_THEN)
            raise TooLargeError("", "the request is larger than this server takes, or there is none")
        return data

    async def next_of_stream(self, context: Any, end: Callable[[Exception], Awaitable[None]]) -> bytes | None:
        """Wait for a stream's next request; None after the last. end: as `UploadLimiter.message` has it."""
        RECEIVED.get()()  # a stream may be quiet for long: others that are taken up do not wait for it
        return await self._streams.message(context, end)

    def held(self, kind: type[Message], data: bytes) -> "_HeldRequest":
        """Parse a request, and hold it for the length of an `async with` block.

        Raises: what parsing it raises; QueueFullError where others hold too much.
        """
        return _HeldRequest(self._held, self._parse, kind, data)


class _HeldRequest:
    """A request and the memory that it takes."""

    __slots__ = ("_budget", "_data", "_held", "_kind", "_parse")

    def __init__(
        self,
        budget: MemoryBudget,
        parse: Callable[[type[Message], bytes], Awaitable[Any]],
        kind: type[Message],
        data: bytes | Awaitable[bytes],
    ) -> None:
        self._budget, self._parse, self._kind = budget, parse, kind
        self._data: bytes | Awaitable[bytes] = data
        self._held: Held | None = None

    async def __aenter__(self) -> Any:
        data, self._data = self._data, b""
        if not isinstance(data, bytes):
            data = await data
        self._held = self._budget.take(len(data))
        try:
            return await self._parse(self._kind, data)
        except BaseException:
            self._held.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        assert self._held is not None
        self._held.release()
