"""Reading the body of a request: refused unread where it is too large, and bounded in time and memory."""

import asyncio
from collections.abc import Mapping
from typing import Any

from limelight_bundle.errors import InputError, TooLargeError
from limelight_service.admission.memory import MemoryBudget
from limelight_service.frontend.call import Ending
from limelight_service.frontend.http.connection import Connection
from limelight_service.frontend.http.failures import MediaTypeError, SlowUploadError

_LARGEST_FRAMING = 2**16  # bytes of a body that are none of its contents, and beside them one for each:
_CONTENTS = 8  # bytes of contents


class CallerLeftError(Exception):
    """The caller has closed the connection."""


class BodyReader:
    """Reads bodies. For one event loop.

    largest: bytes of one. seconds: that one may take. held: the budget of requests in flight, shared with gRPC.
    """

    def __init__(self, largest: int, seconds: float, held: MemoryBudget) -> None:
        self._largest = largest
        self._seconds = seconds
        self._held = held

    async def read(self, headers: Mapping[str, str], receive: Any, ending: Ending, connection: Connection) -> bytes:
        """Read a body, whose bytes are held until the call ends.

        Raises:
            InputError: it comes in crumbs.
            TooLargeError: it states, or has, more bytes than allowed.
            MediaTypeError: it is compressed.
            QueueFullError: requests in flight take too much memory.
            SlowUploadError: it has not arrived in time.
            CallerLeftError: the caller left.
        """
        encoding = headers.get("content-encoding")
        if encoding and not {each.strip().lower() for each in encoding.split(",")} <= {"", "identity"}:
            raise MediaTypeError("content-encoding", f"is {encoding[:32]}; send the request uncompressed")
        stated = headers.get("content-length", "")
        if stated.isdecimal() and int(stated) > self._largest:
            raise self._too_large(int(stated))
        if not connection.cycle.more_body:  # all of it came with the head
            return await self._received(receive, ending, connection)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._received(receive, ending, connection)
        except TimeoutError as error:
            raise SlowUploadError(f"the request had not arrived after {self._seconds:g} s") from error

    async def _received(self, receive: Any, ending: Ending, connection: Connection) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise CallerLeftError
            part = message["body"]
            if part:
                size += len(part)
                if size > self._largest:
                    raise self._too_large(size)
                ending.callback(self._held.take(len(part)).release)
                parts.append(part)
            if connection.received - size > _LARGEST_FRAMING + size // _CONTENTS:
                few = f"has {size} bytes in chunks of next to nothing; send fewer and larger chunks"
                raise InputError("transfer-encoding", few)
            if not message["more_body"]:
                return b"".join(parts)

    def _too_large(self, size: int) -> TooLargeError:
        return TooLargeError("", f"the request has {size} bytes or more; at most {self._largest} are allowed")
