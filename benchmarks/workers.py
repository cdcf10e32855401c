"""One process on one core, on all of them, and one process for each: `python -m benchmarks.workers`.

The calls of benchmarks/overload.py and predictions of an encoder (benchmarks/encoder.py), in closed loops, by turns;
all of it once as the machine is, and once with cores that do not sleep (benchmarks/awake.py). Six minutes on two cores.
--keep writes docs/performance.md.
"""

import argparse
import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from benchmarks.awake import awake
from benchmarks.demo_calls import DEMO, KINDS
from benchmarks.encoder import make_repository
from benchmarks.kept import save
from benchmarks.load.generator import run_clean
from benchmarks.load.plan import OK, Outcome, Plan, percentile
from benchmarks.load.processor import resident_bytes
from benchmarks.process import ROOT, ServerProcess, cores
from benchmarks.serving.inputs import PREDICT_IT, rows_of
from benchmarks.tables import number, table

_CALLERS = (8, 32)
_REQUESTS = 64
_ENCODER = "encoder, 32 tokens"


@dataclass(frozen=True)
class Shared:
    """A load on a server: medians of rounds. rate: answers a second; times in ms; memory in MiB.

    cores: that the server may run on. awake: whether they are kept so. connections: of the callers together.
    """

    calls: str
    callers: int
    connections: int
    workers: int
    cores: int
    awake: bool
    rate: float
    p50: float
    p99: float
    cpu: float
    memory: float


@dataclass(frozen=True)
class Way:
    """How a server is started."""

    workers: int
    cores: int


def measure(
    repository: Path, ways: Sequence[Way], plans: dict[str, tuple[str, list[bytes]]], seconds: float, rounds: int
) -> list[Shared]:
    """Serve one repository in every way, and load the servers by turns: by eight connections, and by one."""
    found = []
    with ExitStack() as stack:
        servers = {way: stack.enter_context(_served(repository, way)) for way in ways}
        for calls, (method, messages) in plans.items():
            for callers, connections in [*((callers, 8) for callers in _CALLERS), (_CALLERS[-1], 1)]:
                plan = Plan("", method, messages, seconds, concurrency=callers, connections=connections)
                for kept_awake in (False, True):
                    outcomes: dict[Way, list[Outcome]] = {way: [] for way in ways}
                    with awake() if kept_awake else nullcontext():
                        for _, (way, server) in product(range(rounds), servers.items()):
                            outcomes[way].append(run_clean(replace(plan, target=server.target, pids=server.pids)))
                    for way, server in servers.items():
                        held = resident_bytes(server.pids)
                        found.append(_shared(calls, plan, way, outcomes[way], held, kept_awake=kept_awake))
                        print(tables(found[-1:])[-1], flush=True)
    return found


@contextmanager
def _served(repository: Path, way: Way) -> Iterator[ServerProcess]:
    """Start a server, on its first cores where it may not have all."""
    flags = ("--workers", str(way.workers), "--provider", "cpu", "--no-apart")
    every = os.sched_getaffinity(0)
    with ExitStack() as stack:
        os.sched_setaffinity(0, sorted(every)[: way.cores])
        try:
            server = stack.enter_context(ServerProcess(repository, *flags))
        finally:
            os.sched_setaffinity(0, every)
        yield server


def _shared(calls: str, plan: Plan, way: Way, outcomes: Sequence[Outcome], memory: int, *, kept_awake: bool) -> Shared:
    times = [outcome.latencies[OK] for outcome in outcomes]
    return Shared(
        calls=calls,
        callers=plan.concurrency,
        connections=plan.connections,
        workers=way.workers,
        cores=way.cores,
        awake=kept_awake,
        rate=statistics.median(each.rate for each in outcomes),
        p50=statistics.median(percentile(each, 0.5) for each in times) * 1e3,
        p99=statistics.median(percentile(each, 0.99) for each in times) * 1e3,
        cpu=statistics.median(each.server_cpu / each.done for each in outcomes) * 1e3,
        memory=memory / 2**20,
    )


def tables(rows: Sequence[Shared]) -> list[str]:
    """The table of a run."""
    head = ["calls", "callers, connections", "processes", "cores", "requests/s", "p50 / p99 ms", "CPU ms", "MiB"]
    return table(
        head,
        [
            [
                each.calls,
                f"{each.callers}, {each.connections}",
                str(each.workers),
                f"{each.cores}{', awake' if each.awake else ''}",
                number(each.rate),
                f"{each.p50:.1f} / {each.p99:.1f}",
                f"{each.cpu:.2f}",
                f"{each.memory:.0f}",
            ]
            for each in rows
        ],
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.8, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    encoder = ROOT / "build" / "benchmarks"
    make_repository(encoder)
    ways = (Way(1, 1), Way(1, cores()), Way(cores(), cores()))
    demo = {kind: (method, [request(seed) for seed in range(_REQUESTS)]) for kind, (method, request) in KINDS.items()}
    texts = {_ENCODER: (PREDICT_IT.method, [PREDICT_IT.serialise(row) for row in rows_of("32")])}
    rows = [
        row
        for repository, plans in ((DEMO, demo), (encoder, texts))
        for row in measure(repository, ways, plans, options.seconds, options.rounds)
    ]
    print("\n".join(["", *tables(rows)]))
    save("workers", rows, keep=options.keep)


if __name__ == "__main__":
    main()
