"""Where the processor time goes when more is asked than can be done: `python -m benchmarks.shed`.

The calls of benchmarks/overload.py, at the capacity and at multiples of it. Two minutes. --keep writes
docs/performance.md.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from benchmarks.demo_calls import DEMO, KINDS
from benchmarks.kept import save
from benchmarks.load.generator import run_load
from benchmarks.load.plan import OK, RESOURCE_EXHAUSTED, Plan
from benchmarks.overload import DEADLINE, capacity
from benchmarks.process import ServerProcess, cores
from benchmarks.tables import number, table
from benchmarks.threads import KINDS as THREADS
from benchmarks.threads import seconds_of

_FACTORS = (1.0, 2.0, 3.0, 10.0)
_REQUESTS = 64


@dataclass(frozen=True)
class Shed:
    """What came of a load, in calls a second, and what it took, in cores; at 1 × capacity the same for comparison.

    refused: with a reason; what gRPC's core cancelled is the rest. threads: by what they do.
    """

    kind: str
    factor: float
    offered: float
    answered: float
    refused: float
    generator: float
    others: float
    threads: dict[str, float] = field(default_factory=dict)


def measure(kind: str, seconds: float) -> list[Shed]:
    """Load a fresh server."""
    method, request = KINDS[kind]
    rows = []
    with ServerProcess(DEMO) as server:
        plan = Plan(server.target, method, [request(seed) for seed in range(_REQUESTS)], seconds, deadline=DEADLINE)
        most = capacity(replace(plan, seconds=min(3.0, seconds)))
        for factor in _FACTORS:
            before, began = seconds_of(server.pids), time.monotonic()
            outcome = run_load(replace(plan, rate=factor * most), processes=2)
            after, took = seconds_of(server.pids), time.monotonic() - began
            total = sum(len(each) for each in outcome.latencies.values()) + outcome.unanswered
            own = sum(after.values()) - sum(before.values())
            rows.append(
                Shed(
                    kind=kind,
                    factor=factor,
                    offered=total / outcome.seconds,
                    answered=len(outcome.latencies.get(OK, ())) / outcome.seconds,
                    refused=len(outcome.latencies.get(RESOURCE_EXHAUSTED, ())) / outcome.seconds,
                    generator=outcome.generator_cpu / outcome.seconds,
                    others=max(0.0, outcome.others / outcome.seconds - own / took),
                    threads={name: (after[name] - before[name]) / took for name in after},
                )
            )
    return rows


def tables(rows: Sequence[Shed]) -> list[str]:
    """The table of a run."""
    kinds = [each for each in THREADS if any(row.threads[each] for row in rows)]
    head = [
        "calls",
        "load",
        "offered/s",
        "answered/s",
        "refused/s",
        "cancelled by gRPC/s",
        *kinds,
        "generator",
        "others",
    ]
    return table(
        head,
        [
            [
                each.kind,
                f"{each.factor:g} ×",
                *map(number, (each.offered, each.answered, each.refused)),
                number(each.offered - each.answered - each.refused),
                *(f"{each.threads[kind]:.2f}" for kind in kinds),
                f"{each.generator:.2f}",
                f"{each.others:.2f}",
            ]
            for each in rows
        ],
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="at each load")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    rows = [row for kind in options.kinds for row in measure(kind, options.seconds)]
    print(f"of {cores()} cores")
    print("\n".join(tables(rows)))
    save("shed", rows, keep=options.keep)


if __name__ == "__main__":
    main()
