"""The one late check: a call that would be answered after its deadline is refused before it costs anything."""

import time

from limelight_service.errors import QueueFullError
from limelight_service.ipc.boundary import WaitEstimate

# The part of its time that a call may be expected to take. Under load, work slows down more than the last of it tells;
# and a queue that is as long as deadlines allow answers every call at the last moment.
_PART = 0.5
_SHORTEST_RETRY, _LONGEST_RETRY = 0.05, 30.0


def check_in_time(estimate: WaitEstimate, rows: int, preprocessing: float, deadline: float) -> None:
    """Check whether rows that arrive now would be answered before their deadline.

    Args:
        estimate: for one row of their model, of the engine.
        rows: theirs, and those of their model that are preprocessed now: the engine does not know of them.
        preprocessing: seconds that they wait for threads which preprocess.
        deadline: on the clock of `time.monotonic`.

    Raises:
        QueueFullError: they would be late; it says when to try again.
    """
    expected = preprocessing + estimate.seconds + (rows - 1) * estimate.per_row
    left = max(0.0, deadline - time.monotonic())
    if expected > _PART * left:
        retry_after = min(max(expected - _PART * left, _SHORTEST_RETRY), _LONGEST_RETRY)
        raise QueueFullError(
            f"so much is waiting that an answer would take about {expected:.2g} s, more than half of the "
            f"{left:.2g} s until the deadline",
            retry_after=retry_after,
        )
