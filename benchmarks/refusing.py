"""What refusing costs at the least: `python -m benchmarks.refusing`.

The calls of benchmarks/overload.py to a server of gRPC's asyncio that does nothing but refuse them, unread, with the
status and the RetryInfo of a full server; an open loop at several rates. Half a minute. --keep writes
docs/performance.md.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks import overload
from benchmarks.demo_calls import KINDS
from benchmarks.kept import save
from benchmarks.load.generator import run_load
from benchmarks.load.plan import RESOURCE_EXHAUSTED, Plan, percentile
from benchmarks.peers.echo import REFUSE, Echo
from benchmarks.process import Process, cores
from benchmarks.tables import number, table

_RATES = (250.0, 500.0, 1000.0, 2000.0, 4000.0)
_REQUESTS = 64
_SOON = 0.05  # seconds, within which a refusal should be there


@dataclass(frozen=True)
class Refused:
    """What came of a rate. offered and refused: calls a second. soon: share of the calls that were refused within 50 ms
    of when they were meant to be sent. p99: of refusals, in ms. server: ms of processor time a refusal. generator,
    others: shares of the machine.
    """

    kind: str
    offered: float
    refused: float
    soon: float
    p99: float
    server: float
    generator: float
    others: float


def measure(server: Process, kind: str, rate: float, seconds: float) -> Refused:
    """Offer one rate."""
    messages = [KINDS[kind][1](seed) for seed in range(_REQUESTS)]
    plan = Plan(
        server.target, REFUSE, messages, seconds, rate=rate, deadline=overload.DEADLINE, warm=0.5, pids=server.pids
    )
    outcome = run_load(replace(plan, deadline=overload.DEADLINE), processes=2)
    refused = outcome.latencies.get(RESOURCE_EXHAUSTED, [])
    total = sum(map(len, outcome.latencies.values())) + outcome.unanswered
    return Refused(
        kind=kind,
        offered=total / outcome.seconds,
        refused=len(refused) / outcome.seconds,
        soon=sum(each <= _SOON for each in refused) / total,
        p99=percentile(refused, 0.99) * 1e3,
        server=outcome.server_cpu / max(1, len(refused)) * 1e3,
        generator=outcome.generator_cpu / outcome.seconds / cores(),
        others=outcome.others / outcome.seconds / cores(),
    )


def tables(rows: Sequence[Refused]) -> list[str]:
    """The table of a run."""
    head = [
        "calls",
        "offered/s",
        "refused/s",
        "within 50 ms",
        "p99 ms",
        "server, ms of a core each",
        "generator, others",
    ]
    return table(
        head,
        [
            [
                each.kind,
                number(each.offered),
                number(each.refused),
                f"{each.soon:.0%}",
                number(each.p99, ".1f"),
                f"{each.server:.2f}",
                f"{each.generator:.0%}, {each.others:.0%}",
            ]
            for each in rows
        ],
    )


def least(rows: Sequence[Refused], kind: str) -> float:
    """The least processor time that a refusal took where nearly all were refused, in seconds."""
    return min(each.server for each in rows if each.kind == kind and each.refused > 0.99 * each.offered) / 1e3


def ceilings(rows: Sequence[Refused], loads: overload.Results) -> list[str]:
    """What goodput could be at the most where every call beyond it is refused at that price, and the event loop's share
    of that: an answer takes what the capacity says, and the machine has no more than its cores.
    """
    lines, count = [], int(loads.machine.split()[0])  # cores of where it was measured, wherever the page is written
    for kind in dict.fromkeys(each.kind for each in loads.rows):
        cells, price = [], least(rows, kind)
        for each in (row for row in loads.rows if row.kind == kind):
            most = (count - each.factor * each.capacity * price) / (count - each.capacity * price)
            loop = (each.factor - max(0.0, most)) * each.capacity * price
            cells.append(f"{max(0.0, most):.2f} (loop {loop:.2f}), reached {each.goodput / each.capacity:.2f}")
        lines.append([kind, f"{price * 1e3:.2f}", *cells])
    return table(["calls", "ms a refusal", *(f"{factor:g} ×" for factor in overload.FACTORS)], lines)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="at each rate")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    with Echo() as server:
        rows = [measure(server, kind, rate, options.seconds) for kind in options.kinds for rate in _RATES]
    print("\n".join(tables(rows)))
    save("refusing", rows, keep=options.keep)


if __name__ == "__main__":
    main()
