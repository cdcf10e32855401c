"""Counts of the calls that use a model, which is freed once none does."""

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class Usage(Generic[H]):
    """Counts the users of things. For one event loop."""

    def __init__(self) -> None:
        self._users: dict[H, int] = {}
        self._unused: dict[H, asyncio.Event] = {}  # of what somebody waits for

    def enter(self, used: H) -> None:
        """Count one user more."""
        self._users[used] = self._users.get(used, 0) + 1

    def leave(self, used: H) -> None:
        """Count one user less."""
        left = self._users[used] - 1
        if left:
            self._users[used] = left
            return
        del self._users[used]
        if used in self._unused:
            self._unused.pop(used).set()

    async def unused(self, used: H) -> None:
        """Wait until nobody uses it."""
        if used in self._users:
            await self._unused.setdefault(used, asyncio.Event()).wait()


class Releases(Generic[H]):
    """Things that somebody else uses no more, once told that they are gone. For one event loop."""

    def __init__(self) -> None:
        self._expected: dict[H, asyncio.Event] = {}

    def expect(self, used: H) -> None:
        """Expect the release of a thing: its user is being told that it is gone."""
        self._expected.setdefault(used, asyncio.Event())

    def release(self, used: H) -> None:
        """Note that the user has released it."""
        if used in self._expected:
            self._expected[used].set()

    def release_all(self) -> None:
        """Note that there is no user any more."""
        for event in self._expected.values():
            event.set()

    async def released(self, used: H) -> None:
        """Wait for the release; at once where none is expected."""
        if used in self._expected:
            await self._expected[used].wait()
            self._expected.pop(used, None)
