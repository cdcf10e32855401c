"""Answers a second by the number of processes that serve: `python -m benchmarks.frontends --counts 1 2 4 8`.

A tiny model, predictions of an encoder, and the calls of tools/benchmarks/overload.py, each in closed loops of 8 and 64
callers, by turns. --option names the flag of `limelight serve` that sets the number.
"""

import argparse
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.demo_calls import DEMO, GENERATE, KINDS
from benchmarks.encoder import make_repository
from benchmarks.load import Outcome, Plan, run_clean
from benchmarks.process import ServerProcess, cores
from benchmarks.processor import resident_bytes
from benchmarks.records import ROOT, save
from benchmarks.serving.inputs import PREDICT_IT, PREDICT_TINY, TINY_LENGTH, rows_of
from benchmarks.tables import of_rows

_CALLERS = (8, 64)
_REQUESTS = 64


@dataclass(frozen=True)
class Served:
    """Medians of the rounds at one load. rate: answers a second; times in ms; cpu: ms of the server a call; MiB."""

    calls: str
    callers: int
    processes: int
    rate: float
    p50: float
    p99: float
    cpu: float
    memory: float


def measure(
    repository: Path,
    option: str,
    counts: Sequence[int],
    loads: Mapping[str, tuple[str, list[bytes]]],
    seconds: float,
    rounds: int,
) -> list[Served]:
    """Start a server for each number of processes, and load all of them by turns."""
    found = []
    with ExitStack() as stack:
        servers = {
            count: stack.enter_context(ServerProcess(repository, option, str(count), "--provider", "cpu"))
            for count in counts
        }
        for calls, (method, messages) in loads.items():
            for callers in _CALLERS:
                plan = Plan("", method, messages, seconds, concurrency=callers, streams=method == GENERATE)
                outcomes: dict[int, list[Outcome]] = {count: [] for count in counts}
                for _ in range(rounds):
                    for count, server in servers.items():
                        outcomes[count].append(run_clean(replace(plan, target=server.target, pids=server.pids)))
                for count, server in servers.items():
                    found.append(_served(calls, callers, count, outcomes[count], resident_bytes(server.pids)))
                    print(of_rows(found[-1:])[-1], flush=True)
    return found


def _served(calls: str, callers: int, processes: int, outcomes: Sequence[Outcome], memory: int) -> Served:
    return Served(
        calls=calls,
        callers=callers,
        processes=processes,
        rate=statistics.median(each.rate_without_generator(cores()) for each in outcomes),
        p50=statistics.median(each.milliseconds(0.5) for each in outcomes),
        p99=statistics.median(each.milliseconds(0.99) for each in outcomes),
        cpu=statistics.median(each.cpu for each in outcomes),
        memory=memory / 2**20,
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=sorted({1, cores()}), help="numbers of processes")
    parser.add_argument("--option", default="--frontends", help="flag of `limelight serve` for the number")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    options = parser.parse_args()
    encoder = ROOT / "build" / "benchmarks"
    make_repository(encoder)
    demo = {kind: (method, [request(seed) for seed in range(_REQUESTS)]) for kind, (method, request) in KINDS.items()}
    models = {
        "a model of about 50 µs": (PREDICT_TINY.method, list(map(PREDICT_TINY.serialise, rows_of(TINY_LENGTH)))),
        "encoder, 32 tokens": (PREDICT_IT.method, list(map(PREDICT_IT.serialise, rows_of("32")))),
    }
    rows = [
        row
        for repository, loads in ((encoder, models), (DEMO, demo))
        for row in measure(repository, options.option, options.counts, loads, options.seconds, options.rounds)
    ]
    print("\n".join(["", *of_rows(rows)]))
    save("frontends", rows, keep=options.keep)


if __name__ == "__main__":
    main()
