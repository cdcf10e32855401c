"""Goodput, refusals, health and memory of a server under more load than its capacity.

    python -m benchmarks.overload                        # a minute at each of 2, 3 and 10 times capacity: 13 minutes
    python -m benchmarks.overload --seconds 6 --after 5  # for trying: 2 minutes
    python -m benchmarks.overload --keep                 # writes tools/benchmarks/results/overload.json.xz

Documents, pictures and generations of the demo models, each on a fresh server: capacity in closed loops, an open loop
with a deadline of 1 s a call, and capacity again. The mean of both capacities counts, since the speed of a shared
machine changes within a minute. Goodput is answers before their deadline. Another caller asks for health 20 times a
second. --resume goes on with a run that was cut short.
"""

import argparse
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.demo_calls import DEMO, GENERATE, KINDS
from benchmarks.load import OK, RESOURCE_EXHAUSTED, Outcome, Plan, percentile, run_clean, run_load
from benchmarks.process import HEALTH, ServerProcess, cores
from benchmarks.processor import resident_bytes
from benchmarks.records import place, read, save
from benchmarks.tables import of_rows

FACTORS = (2.0, 3.0, 10.0)
DEADLINE = 1.0
_CAPACITY_CALLERS = (8, 32)
_HEALTH_RATE = 20.0
_REQUESTS = 64


@dataclass(frozen=True)
class Overloaded:
    """One kind of call at one load. Rates a second, times in ms, memory in MiB.

    capacity and goodput are both with the generator's processor time given back. statuses: share of the calls by gRPC
    status. answered, refused: times until then; refused is RESOURCE_EXHAUSTED. generator: its share of the machine.
    """

    kind: str
    factor: float
    capacity: float
    offered: float
    goodput: float
    statuses: dict[str, float]
    answered_p50: float
    answered_p99: float
    refused_p50: float
    refused_p99: float
    with_retry: float
    health_p50: float
    health_p99: float
    health_worst: float
    memory_before: float
    memory_most: float
    generator: float
    lag: float
    others: float
    memory_after: float | None = None


class _Memory:
    """Watches how much memory a server holds."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids, self._over = pids, threading.Event()
        self.most = 0
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "_Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.most = max(self.most, resident_bytes(self._pids))


def spared(rate: float, outcome: Outcome) -> float:
    """Give the generator's processor time back."""
    return rate / (1 - outcome.generator_cpu / cores() / outcome.seconds)


def capacity(plan: Plan) -> float:
    """The best rate of closed loops."""
    outcomes = [run_clean(replace(plan, concurrency=callers, deadline=None)) for callers in _CAPACITY_CALLERS]
    return max(spared(each.rate, each) for each in outcomes)


def overload(server: ServerProcess, plan: Plan, kind: str, factor: float, most: float, processes: int) -> Overloaded:
    """Send `factor` times the capacity, and watch health and memory beside it."""
    before = resident_bytes(server.pids)
    found: list[Outcome] = []
    health = Plan(server.target, HEALTH, [b""], plan.seconds, rate=_HEALTH_RATE, warm=plan.warm, connections=1)
    prober = threading.Thread(target=lambda: found.append(run_load(health)))
    with _Memory(server.pids) as memory:
        prober.start()
        outcome = run_load(replace(plan, rate=factor * most), processes=processes)
        prober.join()
    total = sum(len(each) for each in outcome.latencies.values()) + outcome.unsent
    statuses = {str(status): len(times) / total for status, times in sorted(outcome.latencies.items())}
    if outcome.unsent:
        statuses["none"] = outcome.unsent / total
    answered, refused = (outcome.latencies.get(status, []) for status in (OK, RESOURCE_EXHAUSTED))
    probed = [time for times in found[0].latencies.values() for time in times]
    return Overloaded(
        kind=kind,
        factor=factor,
        capacity=most,
        offered=total / outcome.seconds,
        goodput=spared(outcome.goodput(DEADLINE), outcome),
        statuses=statuses,
        answered_p50=percentile(answered, 0.5) * 1e3,
        answered_p99=percentile(answered, 0.99) * 1e3,
        refused_p50=percentile(refused, 0.5) * 1e3,
        refused_p99=percentile(refused, 0.99) * 1e3,
        with_retry=outcome.retry / len(refused) if refused else float("nan"),
        health_p50=percentile(probed, 0.5) * 1e3,
        health_p99=percentile(probed, 0.99) * 1e3,
        health_worst=max(probed) * 1e3,
        memory_before=before / 2**20,
        memory_most=memory.most / 2**20,
        generator=outcome.generator_cpu / outcome.seconds / cores(),
        lag=outcome.lag * 1e3,
        others=outcome.others / outcome.seconds / cores(),
    )


def measure(
    rows: list[Overloaded],
    keep: Callable[[], None],
    kinds: Sequence[str],
    *,
    seconds: float,
    after: float,
    processes: int,
) -> None:
    """Append the missing rows, kind by kind, each on a fresh server. keep: called after each row."""
    for kind in kinds:
        todo = [factor for factor in FACTORS if (kind, factor) not in {(each.kind, each.factor) for each in rows}]
        if not todo:
            continue
        method, request = KINDS[kind]
        messages = [request(seed) for seed in range(_REQUESTS)]
        with ServerProcess(DEMO) as server:
            plan = Plan(server.target, method, messages, seconds, deadline=DEADLINE, warm=1.0, pids=server.pids)
            plan = replace(plan, streams=method == GENERATE)
            closed = replace(plan, seconds=min(3.0, seconds))
            for factor in todo:
                before = capacity(closed)
                row = overload(server, plan, kind, factor, before, processes)
                rows.append(replace(row, capacity=(before + capacity(closed)) / 2))
                keep()
                print(of_rows(rows[-1:])[-1], flush=True)
            time.sleep(after)
            rows[-1] = replace(rows[-1], memory_after=resident_bytes(server.pids) / 2**20)
            keep()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="at each load")
    parser.add_argument("--after", type=float, default=30.0, help="seconds until memory is looked at again")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--processes", type=int, default=2, help="of the generator")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was cut short")
    options = parser.parse_args()
    file = place("overload", keep=options.keep)
    rows = [Overloaded(**each) for each in read(file)["rows"]] if options.resume and file.exists() else []
    settings = {"seconds": options.seconds, "after": options.after}

    def keep() -> None:
        save("overload", rows, keep=options.keep, settings=settings)

    measure(rows, keep, options.kinds, seconds=options.seconds, after=options.after, processes=options.processes)
    print("\n".join(["", *of_rows(rows)]))


if __name__ == "__main__":
    main()
