"""Closed and open loops over any protocol, and the calls that they record."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

OK = "OK"
NOT_SENT = "NOT_SENT"
"""Code of a call of an open loop that was due while `MOST_UNDER_WAY` others were under way."""
MOST_UNDER_WAY = 4096
# Pause of a caller whose call was refused, unless the server names one: at most, and at least.
_LONGEST_PAUSE, _SHORTEST_PAUSE = 1.0, 0.01


@dataclass(frozen=True)
class Reply:
    """The end of one call. code: gRPC's name of it. size: bytes of the answer. retry_after: seconds."""

    code: str
    size: int = 0
    message: str = ""
    retry_after: float | None = None


Send = Callable[[int], Awaitable[Reply]]
"""Sends a call, given its number from 0, and returns its end. Raises nothing but CancelledError."""


@dataclass(frozen=True)
class Load:
    """The load of one run: `seconds`, or `number` calls, or until its recorder is stopped, whatever comes first.

    rate: calls a second of an open loop, at random times (a Poisson process with this seed); 0 for a closed loop, in
    which each of `callers` sends its next call after the previous answer.
    """

    callers: int = 1
    rate: float = 0.0
    seconds: float | None = None
    number: int | None = None
    seed: int = 1


@dataclass
class Recorder:
    """The calls of a run. Times are seconds from its start; the lists have one entry for each call.

    latencies: from the time at which the call was due, which in an open loop is the drawn one. retries: whether the
    server named a time to retry. lags: how late calls of an open loop were sent. stopped: no further calls are sent.
    """

    start: float = field(default_factory=time.perf_counter)
    processor_start: float = field(default_factory=time.process_time)
    ends: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    retries: list[bool] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    first_error: str | None = None
    sent: int = 0
    stopped: bool = False
    interrupted: bool = False
    seconds: float = 0.0
    processor_seconds: float = 0.0

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def under_way(self) -> int:
        """Number of calls that have not ended."""
        return self.sent - len(self.ends)

    def ended(self, due: float, reply: Reply) -> None:
        """Record the end of a call."""
        now = self.now
        self.ends.append(now)
        self.latencies.append(now - due)
        self.codes.append(reply.code)
        self.sizes.append(reply.size)
        self.retries.append(reply.retry_after is not None)
        if reply.code != OK and self.first_error is None:
            self.first_error = f"{reply.code}: {reply.message}"


async def run(send: Send, load: Load, recorder: Recorder) -> None:
    """Run a load until its end. Where the task is cancelled (Ctrl-C), the record keeps the calls that have ended."""
    loop = _open(send, load, recorder) if load.rate else _closed(send, load, recorder)
    try:
        await loop
    except asyncio.CancelledError:
        recorder.interrupted = True
    recorder.seconds = recorder.now if recorder.interrupted else max(recorder.ends, default=0.0)
    recorder.processor_seconds = time.process_time() - recorder.processor_start


async def _closed(send: Send, load: Load, recorder: Recorder) -> None:
    async def caller() -> None:
        while (load.seconds is None or recorder.now < load.seconds) and recorder.sent != load.number:
            if recorder.stopped:
                return
            number, due = recorder.sent, recorder.now
            recorder.sent += 1
            reply = await send(number)
            recorder.ended(due, reply)
            if reply.code != OK:  # do not flood a server that refuses immediately
                await asyncio.sleep(min(max(reply.retry_after or 0.0, _SHORTEST_PAUSE), _LONGEST_PAUSE))

    async with asyncio.TaskGroup() as callers:
        for _ in range(load.callers):
            callers.create_task(caller())


async def _open(send: Send, load: Load, recorder: Recorder) -> None:
    chance, due = random.Random(load.seed), 0.0

    async def call(number: int, due: float) -> None:
        recorder.ended(due, await send(number))

    async with asyncio.TaskGroup() as calls:
        while recorder.sent != load.number:
            due += chance.expovariate(load.rate)
            if load.seconds is not None and due >= load.seconds:
                break
            # A short sleep even if the call is late: answers are read in between.
            await asyncio.sleep(max(0.0, due - recorder.now))
            recorder.lags.append(recorder.now - due)
            number = recorder.sent
            recorder.sent += 1
            if recorder.under_way > MOST_UNDER_WAY:
                recorder.ended(due, Reply(NOT_SENT, message=f"{MOST_UNDER_WAY} calls were under way"))
            else:
                calls.create_task(call(number, due))
