"""Bounds what another process has been handed and has not answered yet."""

from limelight_service.admission.turns import Turns


class Window:
    """Room for so many calls, and so many bytes of their requests. For one event loop.

    One call fits into an empty window whatever its size. While the window is closed nobody gets room.
    """

    def __init__(self, calls: int, size: int) -> None:
        self._calls = calls
        self._size = size
        self._waiting = Turns[int]()
        self._taken = self._bytes = 0
        self._is_open = True

    async def enter(self, size: int) -> None:
        """Wait, behind those that came before, until a call with a request of so many bytes has room, and take it."""
        if self._waiting or not self._fits(size):
            await self._waiting.wait(size, lambda: self.leave(size))
        else:
            self._take(size)

    def leave(self, size: int) -> None:
        """Give back what a call with a request of so many bytes had taken."""
        self._taken -= 1
        self._bytes -= size
        self._let_in()

    def set_open(self, is_open: bool) -> None:
        """Let calls in, or none until further notice."""
        self._is_open = is_open
        self._let_in()

    def _let_in(self) -> None:
        while (size := self._waiting.oldest) is not None and self._fits(size):
            self._take(size)
            self._waiting.give()

    def _fits(self, size: int) -> bool:
        within = self._taken < self._calls and self._bytes + size <= self._size
        return self._is_open and (within or not self._taken)

    def _take(self, size: int) -> None:
        self._taken += 1
        self._bytes += size
