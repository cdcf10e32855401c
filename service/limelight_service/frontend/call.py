"""One call as the core sees it, whatever protocol it came by."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from limelight_service.observability.traces import Trace
from limelight_service.security.caller import ANYBODY, Caller


class Ending:
    """What is to be done at the end of a call, the latest first. A fifth of what an `ExitStack` costs."""

    __slots__ = ("_acts", "callback")

    def __init__(self) -> None:
        self._acts: list[Callable[[], object]] = []
        self.callback = self._acts.append  # has a function called at the end

    def close(self) -> None:
        """Call all of them, whatever one raises."""
        acts = self._acts
        try:
            while acts:
                acts.pop()()
        finally:
            if acts:
                self.close()


@dataclass
class Call:
    """A call and what is learned of it for its log line.

    deadline: on the clock of `time.monotonic`; None without one. at_end: closed once the protocol has no more to do
    with the call. limit: bytes of the largest answer that the protocol can send; 0 for no limit of its own. durations:
    nanoseconds by stage. trace: None where calls are not traced. operation: as OpenTelemetry's conventions for
    generative AI name what is done; a protocol may say it, and the core does where it does not. began: on the clock of
    `time.monotonic`.
    """

    identity: str
    deadline: float | None
    at_end: Ending
    caller: Caller = ANYBODY
    model: str = ""
    version: int = 0
    rows: int = 0
    limit: int = 0
    durations: dict[str, int] = field(default_factory=dict)
    trace: Trace | None = None
    operation: str = ""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        # Has a function called once the whole answer has been taken, or the call has ended otherwise.
        self.when_sent = self.at_end.callback

    def traced(self, stage: str, nanoseconds: int) -> None:
        """Add the span of a stage that ends now to the trace, where there is one."""
        if self.trace is not None:
            self.trace.stage(stage, time.monotonic_ns() - nanoseconds, nanoseconds, {})
