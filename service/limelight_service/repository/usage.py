"""Counts of the calls that use a model, which is freed once none does."""

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


@dataclass
class _Users:
    count: int = 0
    none: asyncio.Event = field(default_factory=asyncio.Event)


class Usage(Generic[H]):
    """Counts the users of things. For one event loop."""

    def __init__(self) -> None:
        self._users: dict[H, _Users] = {}

    def enter(self, used: H) -> None:
        """Count one user more."""
        self._users.setdefault(used, _Users()).count += 1

    def leave(self, used: H) -> None:
        """Count one user less."""
        users = self._users[used]
        users.count -= 1
        if not users.count:
            del self._users[used]
            users.none.set()

    @contextmanager
    def use(self, used: H) -> Iterator[None]:
        """Be a user for the length of a block."""
        self.enter(used)
        try:
            yield
        finally:
            self.leave(used)

    async def unused(self, used: H) -> None:
        """Wait until nobody uses it."""
        users = self._users.get(used)
        if users is not None:
            await users.none.wait()


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
