"""From bytes to a message: a request is counted and parsed, a large one away from the event loop."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from limelight_bundle.errors import InputError
from limelight_service.admission.field_count import count_fields

_Kind = TypeVar("_Kind", bound=Message)
# Up to here a message takes less than a millisecond, whatever is in it.
_PARSED_AT_ONCE = 16 * 1024


class Parsing:
    """Parses requests. For one event loop.

    most_fields: that a request may have, everything inside counted. large: so many requests so far that took memory
    worth giving back, whatever became of them.
    """

    def __init__(self, most_fields: int) -> None:
        self._most_fields = most_fields
        self.large = 0
        self._thread = ThreadPoolExecutor(1, "parse")  # one large request at a time takes turns with the event loop

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False)

    async def message(self, kind: type[_Kind], data: bytes) -> _Kind:
        """Parse a message. Raises: InputError where it is none of this kind, or has too many fields."""
        if len(data) <= _PARSED_AT_ONCE:
            return _parsed(kind, data)
        self.large += 1
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, _counted, kind, data, self._most_fields)


def _counted(kind: type[_Kind], data: bytes, most_fields: int) -> _Kind:
    count_fields(kind.DESCRIPTOR, data, most_fields)
    return _parsed(kind, data)


def _parsed(kind: type[_Kind], data: bytes) -> _Kind:
    """Parse a message. gRPC itself would answer INTERNAL where that fails, and fill the log with it."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InputError("", f"the request is not a message of type {kind.DESCRIPTOR.full_name}") from error
