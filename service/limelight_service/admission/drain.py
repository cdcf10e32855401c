"""Which calls are let in while the server stops, and what becomes of those that are inside.

gRPC's own stop answers CANCELLED to what has arrived and was not read yet, and to whatever still comes before clients
know of it: to a client that is a call that it gave up, and no reason to try elsewhere. So nothing is
told to gRPC while clients may call: here they are told UNAVAILABLE, and when to try again, and the process ends.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from limelight_service.errors import StoppingError

_CLOSING = 1.0  # seconds that the last calls get at most while no other is let in: a retry or two of what is refused
_CLOSING_PART = 0.1  # and of the grace
_SOON = 0.5  # seconds after which what is refused meanwhile is tried again
_CUTTING = 0.5  # seconds in which calls that were cut get their status
_LATER = 1.0  # seconds after which a stream is tried again, while other calls are still let in


class InFlightCall:
    """A call that was let in. cut: has it end soon, with a status."""

    def __init__(self, cut: Callable[[], None]) -> None:
        self.cut = cut


class DrainGate:
    """Lets calls in, and knows those that are inside. For one event loop."""

    def __init__(self) -> None:
        self._inside: set[InFlightCall] = set()
        self._awaited: set[InFlightCall] = set()
        self._idle: set[InFlightCall] = set()
        self._none_awaited = asyncio.Event()
        self._finishing = False
        self._closed = False

    def enter(self, cut: Callable[[], None], *, stream: bool) -> InFlightCall:
        """Let a call in.

        Raises: StoppingError where the server stops, and the call is better made elsewhere.
        """
        if self._closed:
            raise StoppingError("the server is stopping", retry_after=_SOON)
        if self._finishing and stream:
            raise StoppingError("the server is stopping and begins no streams", retry_after=_LATER)
        call = InFlightCall(cut)
        self._inside.add(call)
        return call

    def leave(self, call: InFlightCall) -> None:
        """A call's answer is sent, or it ended otherwise."""
        self._inside.discard(call)
        if self._finishing:
            self._awaited.discard(call)
            if not self._awaited:
                self._none_awaited.set()

    @contextmanager
    def idle(self, call: InFlightCall) -> Iterator[None]:
        """Mark a call, for the length of a block, that waits for what its caller may send: a stop ends it at once."""
        self._idle.add(call)
        if self._finishing:
            call.cut()
        try:
            yield
        finally:
            self._idle.discard(call)

    async def finish(self, grace: float) -> None:
        """Let calls finish for so many seconds, and cut those that have not then; after that none is inside.

        While those that are inside finish, other calls are answered too: whoever still makes them does not know that
        this server stops, and would only be refused again and again. Streams are not: one that is cut cannot be made
        anew. Then, for as long as the last calls take, every other is refused.
        """
        end = time.monotonic() + grace
        self._finishing = True
        for call in self._idle:
            call.cut()
        await self._finished(end - min(_CLOSING, _CLOSING_PART * grace))
        self._closed = True
        await self._finished(min(end, time.monotonic() + _CLOSING))
        for call in self._inside:
            call.cut()
        await self._finished(time.monotonic() + _CUTTING)

    async def _finished(self, until: float) -> None:
        """Wait for all that are inside now."""
        self._awaited = set(self._inside)
        if self._awaited:
            self._none_awaited.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_awaited.wait(), max(0.0, until - time.monotonic()))
