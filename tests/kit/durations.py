"""How long one thing takes beside another in the same run: the machine's speed and its load fall out."""

import time
from collections.abc import Callable

_TRIES = 5


def takes_at_most(times: float, work: Callable[[], object], beside: Callable[[], object]) -> bool:
    """Whether this thread computes at most so many times as long for `work` as for `beside`, once in a few tries."""
    return any(_seconds(work) <= times * _seconds(beside) for _ in range(_TRIES))


def takes_linear_time(run: Callable[[str], object], piece: str, length: int, end: str = "") -> bool:
    """Whether a text of so many characters takes about four times what a quarter of it takes; sixteen is quadratic."""
    whole, quarter = (piece * (length // parts // len(piece)) + end for parts in (1, 4))
    return takes_at_most(8, lambda: run(whole), lambda: run(quarter))


def _seconds(call: Callable[[], object]) -> float:
    begin = time.thread_time()
    call()
    return time.thread_time() - begin
