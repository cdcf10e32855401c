"""A first-in, first-out queue of waiting calls; a turn given to a call that ends at that moment is not lost."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Calls that wait, each with something that is known of it. For one event loop."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[asyncio.Future[None], T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, known: T, pass_on: Callable[[], None]) -> None:
        """Wait for a turn. pass_on: called where it was given, and the call is cancelled before it knows.

        Raises: what `refuse_newest` is given.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = known
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                del self._waiting[turn]
            elif not turn.cancelled() and turn.exception() is None:
                pass_on()
            raise

    @property
    def oldest(self) -> T | None:
        """The key of the call that waits longest; None where none waits."""
        while self._waiting:
            turn, known = next(iter(self._waiting.items()))
            if not turn.done():
                return known
            del self._waiting[turn]  # it was cancelled in this turn of the loop
        return None

    def give(self, *, newest: bool = False) -> bool:
        """Give the turn to the oldest call, or the newest; gives whether any was waiting."""
        while self._waiting:
            turn, _ = self._waiting.popitem(last=newest)
            if not turn.done():
                turn.set_result(None)
                return True
        return False

    def refuse_newest(self, error: Exception) -> None:
        """Have the newest call fail."""
        turn, _ = self._waiting.popitem()
        if not turn.done():
            turn.set_exception(error)
