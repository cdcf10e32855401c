"""The plan of a load, and its outcome."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

OK, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED = 0, 4, 8


@dataclass(frozen=True)
class Plan:
    """A load: closed with `concurrency` callers, or open with `rate` calls a second at random times.

    messages: serialised requests, sent in turn. seconds: of the part that counts, after `warm` and, in a closed loop,
    after as many answers as there are callers. even: at equal distances instead. deadline: of each call. pids:
    processes whose processor time is the server's. cores: where the generator runs, anywhere if empty.
    """

    target: str
    method: str
    messages: Sequence[bytes]
    seconds: float
    concurrency: int = 0
    rate: float = 0.0
    even: bool = False
    warm: float = 0.3
    deadline: float | None = None
    connections: int = 8
    seed: int = 1
    pids: Sequence[int] = ()
    cores: Sequence[int] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a load, in seconds.

    latencies: by gRPC status; in an open loop from when a call was meant to be sent. lag: the 99th percentile of how
    late calls were sent. others: processor time of everything but server and generator. retry: calls that ended with
    RetryInfo. unanswered: calls without an end. received: bytes of answers. held: calls sent later because the server's
    window for requests was full.
    """

    seconds: float
    latencies: dict[int, list[float]]
    server_cpu: float
    generator_cpu: float
    retry: int = 0
    lag: float = 0.0
    others: float = 0.0
    unanswered: int = 0
    received: int = 0
    held: int = 0

    @property
    def done(self) -> int:
        """Calls that were answered."""
        return len(self.latencies.get(OK, ()))

    @property
    def rate(self) -> float:
        """Answers a second, as they came."""
        return self.done / self.seconds

    def goodput(self, deadline: float) -> float:
        """Answers a second that came before their deadline."""
        return sum(each <= deadline for each in self.latencies.get(OK, ())) / self.seconds

    def rate_without_generator(self, cores: int) -> float:
        """Answers a second with the generator's processor time given back, as if the load came from another machine.

        It holds where the generator shared the server's cores and the server can use all of them.
        """
        return self.done / (self.seconds - self.generator_cpu / cores)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share (0 to 1) of the values do not exceed; NaN of none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def arrivals(rate: float, seconds: float, seed: int) -> list[float]:
    """Draw the times of a Poisson process in [0, seconds): independent callers."""
    chance, times, at = random.Random(seed), [], 0.0
    while (at := at + chance.expovariate(rate)) < seconds:
        times.append(at)
    return times


def merge(outcomes: Sequence[Outcome]) -> Outcome:
    """Merge the outcomes of generators that ran at the same time against one server."""
    latencies: dict[int, list[float]] = {}
    for outcome in outcomes:
        for status, values in outcome.latencies.items():
            latencies.setdefault(status, []).extend(values)
    return replace(
        outcomes[0],
        seconds=sum(each.seconds for each in outcomes) / len(outcomes),
        latencies=latencies,
        generator_cpu=sum(each.generator_cpu for each in outcomes),
        server_cpu=max(each.server_cpu for each in outcomes),
        retry=sum(each.retry for each in outcomes),
        lag=max(each.lag for each in outcomes),
        others=max(0.0, outcomes[0].others - sum(each.generator_cpu for each in outcomes[1:])),
        unanswered=sum(each.unanswered for each in outcomes),
        received=sum(each.received for each in outcomes),
        held=sum(each.held for each in outcomes),
    )
