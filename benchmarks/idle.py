"""What a call costs on a server with nothing else to do: `python -m benchmarks.idle`.

One call at a time, at 32 and 128 tokens, by turns with the runtime alone on every core; where the time goes, from the
answers' own account (`Provenance`). Half a minute. --keep writes docs/performance.md.
"""

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from benchmarks.encoder import make_repository
from benchmarks.kept import save
from benchmarks.load.generator import run_clean
from benchmarks.load.plan import OK, Plan
from benchmarks.process import ROOT, ServerProcess, cores
from benchmarks.serving.inputs import PREDICT, PREDICT_IT, rows_of
from benchmarks.serving.raw import Way, run_raw
from benchmarks.tables import Bar, bar_table, table
from limelight.v1 import service_pb2

LENGTHS = ("32", "128")
_STAGES = ("preprocess", "queue", "compute", "encode")


@dataclass(frozen=True)
class Idle:
    """Medians in ms. runtime: of a run with every core, the better of spinning and not. stages: from Provenance."""

    lengths: str
    runtime: float
    runtime_spinning: float
    served: float
    stages: dict[str, float]
    others: float

    @property
    def best(self) -> float:
        return min(self.runtime, self.runtime_spinning)


def measure(server: ServerProcess, graph: Path, lengths: str, turns: int, seconds: float) -> Idle:
    """Take turns between the runtime and the server."""
    rows = rows_of(lengths)
    messages = [PREDICT_IT.serialise(row) for row in rows]
    plan = Plan(server.target, PREDICT, messages, seconds, concurrency=1, pids=server.pids, warm=0.1)
    calm: list[float] = []
    spinning: list[float] = []
    served: list[float] = []
    others: list[float] = []
    stages: dict[str, list[float]] = {stage: [] for stage in _STAGES}
    for _ in range(turns):
        calm.append(run_raw(graph, rows, Way(1, cores(), 1, 1), seconds).p50 * 1e3)
        outcome = run_clean(plan)
        served.append(statistics.median(outcome.latencies[OK]) * 1e3)
        others.append(outcome.others / outcome.seconds / cores())
        _account(server.target, messages, seconds / 2, stages)
        spinning.append(run_raw(graph, rows, Way(1, cores(), 1, 1, spin=True), seconds).p50 * 1e3)
    middle = {stage: statistics.median(found) for stage, found in stages.items()}
    median = statistics.median
    return Idle(lengths, median(calm), median(spinning), median(served), middle, median(others))


def _account(target: str, messages: Sequence[bytes], seconds: float, stages: dict[str, list[float]]) -> None:
    """Add what answers say of their own time, in ms."""
    with grpc.insecure_channel(target) as channel:
        call = channel.unary_unary(PREDICT, response_deserializer=service_pb2.PredictResponse.FromString)
        end, place = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            told = call(messages[place % len(messages)]).predictions[0].provenance
            for stage, found in stages.items():
                found.append(getattr(told, f"{stage}_nanoseconds") / 1e6)
            place += 1


def tables(rows: Sequence[Idle]) -> list[str]:
    """The table of a run."""
    head = [
        "one call at a time",
        "runtime, all cores",
        "spinning",
        "served",
        "÷ the better",
        *_STAGES,
        "the rest",
        "others",
    ]
    lines = []
    for each in rows:
        rest = each.served - sum(each.stages.values())
        cells = [each.runtime, each.runtime_spinning, each.served]
        lines.append(
            [
                f"{each.lengths} tokens, p50 ms",
                *(f"{value:.2f}" for value in cells),
                f"{each.served / each.best:.2f}",
                *(f"{each.stages[stage]:.2f}" for stage in _STAGES),
                f"{rest:.2f}",
                f"{each.others:.0%}",
            ]
        )
    return table(head, lines)


def bars(rows: Sequence[Idle]) -> list[str]:
    """What the run is held to."""

    def found() -> Iterator[Bar]:
        for each in rows:
            goal = 1.15 * each.best + 1
            yield Bar(
                f"one call of {each.lengths} tokens: 1.15 × runtime + 1 ms", each.served, round(goal, 2), True, "ms"
            )

    return bar_table(found())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    graph = make_repository(ROOT / "build" / "benchmarks") / "model.onnx"
    with ServerProcess(ROOT / "build" / "benchmarks") as server:
        rows = [measure(server, graph, lengths, options.turns, options.seconds) for lengths in LENGTHS]
    print("\n".join([*tables(rows), "", *bars(rows)]))
    save("idle", rows, keep=options.keep)


if __name__ == "__main__":
    main()
