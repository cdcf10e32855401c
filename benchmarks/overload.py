"""What is left of a server's work when more is asked than it can do.

    python -m benchmarks.overload                        # a minute at each of 2, 3 and 10 times capacity: 13 minutes
    python -m benchmarks.overload --seconds 6 --after 5  # for trying: 2 minutes
    python -m benchmarks.overload --keep                 # writes benchmarks/results/overload.json, docs/performance.md

Documents, pictures and generations of the demo models, each on a fresh server: capacity in closed loops, then an open
loop with a deadline of 1 s a call, given up by the caller when it has passed, then capacity again: the machine's speed
changes within a minute where it is shared, and the mean of both counts. Goodput is answers in time. Beside it a caller
asks for health 20 times a second. A run that was cut short goes on where it stopped with --resume.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.demo_calls import DEMO, KINDS
from benchmarks.kept import machine, place, write
from benchmarks.load.generator import run_clean, run_load
from benchmarks.load.plan import DEADLINE_EXCEEDED, OK, RESOURCE_EXHAUSTED, Outcome, Plan, percentile
from benchmarks.load.processor import resident_bytes
from benchmarks.process import HEALTH, ServerProcess, cores
from benchmarks.tables import Bar, bar_table, number, table

FACTORS = (2.0, 3.0, 10.0)
DEADLINE = 1.0
_CAPACITY_CALLERS = (8, 32)
_HEALTH_RATE = 20.0
_REQUESTS = 64


@dataclass(frozen=True)
class Overloaded:
    """What came of one kind of call at one load. Rates a second, times in ms, memory in MiB.

    capacity and goodput are both with the generator's processor time given back. statuses: share of the calls by gRPC
    status. answered, refused: times until then; refused is RESOURCE_EXHAUSTED. generator: its share of the machine.
    held: share of the calls that the server's window for requests kept back.
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
    held: float
    others: float
    memory_after: float | None = None


@dataclass
class Results:
    """Everything of one run."""

    machine: str
    settings: dict[str, float]
    rows: list[Overloaded] = field(default_factory=list)

    def save(self, file: Path) -> None:
        write(file, asdict(self))

    @classmethod
    def load(cls, file: Path) -> "Results":
        content = json.loads(file.read_text())
        return cls(content["machine"], content["settings"], [Overloaded(**each) for each in content["rows"]])


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
    total = sum(len(each) for each in outcome.latencies.values()) + outcome.unanswered
    statuses = {str(status): len(times) / total for status, times in sorted(outcome.latencies.items())}
    if outcome.unanswered:
        statuses["none"] = outcome.unanswered / total
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
        held=outcome.held / total,
        others=outcome.others / outcome.seconds / cores(),
    )


def measure(results: Results, file: Path, kinds: Sequence[str], seconds: float, after: float, processes: int) -> None:
    """Run what is not in the results yet, kind by kind, each on a fresh server."""
    for kind in kinds:
        todo = [
            factor for factor in FACTORS if (kind, factor) not in {(each.kind, each.factor) for each in results.rows}
        ]
        if not todo:
            continue
        method, request = KINDS[kind]
        messages = [request(seed) for seed in range(_REQUESTS)]
        with ServerProcess(DEMO) as server:
            plan = Plan(server.target, method, messages, seconds, deadline=DEADLINE, warm=1.0, pids=server.pids)
            closed = replace(plan, seconds=min(3.0, seconds))
            for factor in todo:
                before = capacity(closed)
                row = overload(server, plan, kind, factor, before, processes)
                results.rows.append(replace(row, capacity=(before + capacity(closed)) / 2))
                results.save(file)
                print(tables(Results("", {}, results.rows[-1:]))[-1], flush=True)
            time.sleep(after)
            results.rows[-1] = replace(results.rows[-1], memory_after=resident_bytes(server.pids) / 2**20)
            results.save(file)


_STATUSES = {
    str(OK): "OK",
    str(DEADLINE_EXCEEDED): "DEADLINE_EXCEEDED",
    str(RESOURCE_EXHAUSTED): "RESOURCE_EXHAUSTED",
    "1": "CANCELLED",
    "13": "reset",
    "14": "UNAVAILABLE",
    "none": "no end",
}


def tables(results: Results) -> list[str]:
    """The table of a run."""
    head = [
        "calls",
        "load",
        "capacity/s",
        "goodput/s",
        "÷ capacity",
        "statuses",
        "answered p50 / p99 ms",
        "refused p50 / p99 ms",
        "with RetryInfo",
    ]
    head += ["health p50 / p99 / worst ms", "memory before / most / after MiB", "generator, others", "lag ms, held"]
    rows = []
    for each in results.rows:
        statuses = ", ".join(f"{_STATUSES.get(name, name)} {share:.1%}" for name, share in each.statuses.items())
        rows.append(
            [
                each.kind,
                f"{each.factor:g} ×",
                number(each.capacity),
                number(each.goodput),
                number(each.goodput / each.capacity, ".2f"),
                statuses,
                f"{number(each.answered_p50)} / {number(each.answered_p99)}",
                f"{number(each.refused_p50, '.1f')} / {number(each.refused_p99, '.1f')}",
                number(each.with_retry, ".0%"),
                f"{each.health_p50:.1f} / {each.health_p99:.1f} / {each.health_worst:.1f}",
                f"{each.memory_before:.0f} / {each.memory_most:.0f} / {number(each.memory_after)}",
                f"{each.generator:.0%}, {each.others:.0%}",
                f"{each.lag:.1f}, {each.held:.1%}",
            ]
        )
    return table(head, rows)


def bars(results: Results) -> list[str]:
    """What the run is held to."""
    return bar_table(_bars(results))


def _bars(results: Results) -> Iterator[Bar]:
    first: dict[str, float] = {}
    for each in results.rows:
        name = f"{each.kind} at {each.factor:g} × capacity"
        before = first.setdefault(each.kind, each.memory_before)
        yield Bar(f"{name}: goodput ÷ capacity", each.goodput / each.capacity, 0.9)
        yield Bar(f"{name}: refused calls are answered (p99)", each.refused_p99, 50, at_most=True, unit="ms")
        yield Bar(f"{name}: refused with RetryInfo", each.with_retry, 1.0)
        yield Bar(f"{name}: health (p99)", each.health_p99, 50, at_most=True, unit="ms")
        if each.memory_after is not None:
            yield Bar(f"{each.kind}: memory afterwards ÷ before", each.memory_after / before, 1.1, at_most=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="at each load")
    parser.add_argument("--after", type=float, default=30.0, help="seconds until memory is looked at again")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--processes", type=int, default=2, help="of the generator")
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was cut short")
    options = parser.parse_args()
    file = place("overload", keep=options.keep)
    results = Results(machine(), {"seconds": options.seconds, "after": options.after})
    if options.resume and file.exists():
        results = Results.load(file)
    measure(results, file, options.kinds, options.seconds, options.after, options.processes)
    print("\n".join(["", *tables(results), "", *bars(results)]))
    if options.keep:
        from benchmarks.performance_page import write_page

        write_page()


if __name__ == "__main__":
    main()
