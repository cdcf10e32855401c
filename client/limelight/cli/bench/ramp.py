"""The search for the knee: the highest rate at which the 99th percentile of the latency keeps a bound."""

import math
from collections.abc import Awaitable, Callable

from limelight.cli.bench.load import OK, Recorder
from limelight.cli.bench.report import Ramp, Step, p99_of_all

_PRECISION = 1.1  # ratio of the rates between which the search ends
_MOST_HALVINGS = 6
_MOST_DOUBLINGS = 20

Measure = Callable[[float], Awaitable[Recorder]]


async def find_knee(measure: Measure, first: float, bound_ms: float) -> tuple[Ramp, Recorder]:
    """Double the rate while the bound is kept, then bisect; from a first rate that is too high, halve it before.

    A rate that misses the bound is measured a second time before it counts as too high. An interrupted measurement ends
    the search.

    Args:
        measure: runs an open loop at a rate, in calls a second.
        bound_ms: largest p99 over all calls, failed calls counting as infinitely slow.

    Returns: the ramp, and the run at the knee, or the last run where no rate kept the bound.
    """
    steps: list[Step] = []
    best: Recorder | None = None
    last = Recorder()
    low, high, rate = 0.0, math.inf, first
    while not last.interrupted:
        for _ in range(2):
            last = await measure(rate)
            met = not last.interrupted and p99_of_all(last) <= bound_ms
            steps.append(_step(rate, last, met))
            if met or last.interrupted:
                break
        if met:
            low, best = rate, last
        elif not last.interrupted:
            high = rate
        if high / low < _PRECISION if low else rate <= first / 2**_MOST_HALVINGS:
            break
        if math.isinf(high) and rate >= first * 2**_MOST_DOUBLINGS:
            break
        rate = low * 2 if math.isinf(high) else math.sqrt(low * high) if low else rate / 2
    return Ramp(bound_ms, low, tuple(steps)), best or last


def _step(rate: float, record: Recorder, met: bool) -> Step:
    good = sorted(latency for latency, code in zip(record.latencies, record.codes, strict=True) if code == OK)
    p99 = p99_of_all(record)
    return Step(
        rate=rate,
        requests_per_second=len(good) / record.seconds if record.seconds else 0.0,
        errors=len(record.codes) - len(good),
        p50_ms=good[len(good) // 2] * 1000 if good else None,
        p99_ms=p99 if math.isfinite(p99) else None,
        met=met,
    )
