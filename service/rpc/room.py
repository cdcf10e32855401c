"""Where messages are written that another process sends: straight into memory that both have."""

from collections.abc import Callable
from typing import Protocol


class Placed(Protocol):
    """A message in such memory. view: its bytes, for whoever writes it; nobody else has them before it is handed on."""

    view: memoryview

    def __len__(self) -> int: ...


# Gives a place for so many bytes, from any thread; None where there is none.
Room = Callable[[int], Placed | None]
Written = bytes | Placed


def no_room(_: int) -> None:
    """Have no such memory: messages are bytes."""
