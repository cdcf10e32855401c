"""When a process that ended is started again: at once, unless it keeps ending."""

_SHORTEST, _LONGEST = 0.5, 5.0  # seconds before a process that keeps ending is started again
_STEADY = 10.0  # seconds of serving after which an end is an accident


class Restarts:
    """The starts of one process."""

    def __init__(self) -> None:
        self._next = 0.0

    def pause(self, served: float, *, is_last: bool) -> float:
        """Give the seconds before the next start: none, then 0.5, twice as many each time, and 5 at most.

        Args:
            served: seconds that the process that ended was ready.
            is_last: no other process listens on the port, whose callers nobody can tell when to come back.
        """
        if served > _STEADY:
            self._next = 0.0
        pause = self._next
        self._next = min(max(_SHORTEST, 2 * pause), _LONGEST)
        return min(pause, 0.0 if served else _SHORTEST) if is_last else pause
