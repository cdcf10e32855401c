"""Where the processor time of a call goes, thread by thread: `python -m benchmarks.breakdown`.

Beside the server stands what the runtime alone takes for a row in batches of the size that the server made, and what a
server costs that only answers. Three minutes. --keep writes docs/performance.md.
"""

import argparse
import re
import statistics
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.encoder import make_repository
from benchmarks.kept import save
from benchmarks.load.generator import run_clean
from benchmarks.load.plan import Plan
from benchmarks.peers.echo import ECHO, Echo
from benchmarks.process import ROOT, Process, ServerProcess, cores, free_port
from benchmarks.serving.inputs import (
    ALL_MAPS,
    HEAD_MEAN,
    PREDICT_IT,
    PREDICT_TINY,
    TINY_LENGTH,
    TOP_K,
    Question,
    rows_of,
)
from benchmarks.serving.raw import Way, run_raw
from benchmarks.tables import table
from benchmarks.threads import KINDS, LANES, seconds_of

LOADS = (
    (PREDICT_IT, "32", 1),
    (PREDICT_IT, "32", 8),
    (PREDICT_IT, "32", 32),
    (PREDICT_IT, "128", 8),
    (PREDICT_IT, "128", 32),
    (ALL_MAPS, "32", 16),
    (ALL_MAPS, "128", 16),
    (TOP_K, "128", 16),
    (HEAD_MEAN, "32", 16),
    (HEAD_MEAN, "128", 16),
    (PREDICT_TINY, TINY_LENGTH, 32),
)


@dataclass(frozen=True)
class Cost:
    """Medians, in ms of processor time a call. rows: of a batch. threads: by what they do; the lanes' holds the
    runtime's own. runtime: a row in batches of that size without a server, its maps fetched where they were asked for;
    None where that is not measured. echo: a call of a server that only answers.
    """

    what: str
    callers: int
    rate: float
    rows: float
    runtime: float | None
    echo: float
    others: float
    threads: dict[str, float] = field(default_factory=dict)


def named(question: Question, lengths: str) -> str:
    """Name calls of a kind in tables."""
    return f"{question.name}, {lengths} tokens" if question.model == PREDICT_IT.model else "a model of about 50 µs"


def measure(
    server: Process,
    metrics: str,
    echo: Process,
    graph: Path,
    load: tuple[Question, str, int],
    *,
    turns: int,
    seconds: float,
) -> Cost:
    """Take turns between the server, the runtime and the echo. metrics: where the server's page of them is."""
    question, lengths, callers = load
    asked = rows_of(lengths)
    messages = [question.serialise(row) for row in asked]
    rates, sizes, runtimes, echoes, others = [], [], [], [], []
    threads: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(turns):
        before, rows_before = seconds_of(server.pids), rows_so_far(metrics, question.model)
        outcome = run_clean(Plan(server.target, question.method, messages, seconds, concurrency=callers))
        after, rows_after = seconds_of(server.pids), rows_so_far(metrics, question.model)
        calls = rows_after[0] - rows_before[0]
        for kind, found in threads.items():
            found.append((after[kind] - before[kind]) / calls * 1e3)
        rates.append(outcome.rate)
        sizes.append(calls / (rows_after[1] - rows_before[1]))
        lanes = 1 if callers == 1 else cores()
        if question.model == PREDICT_IT.model:
            way = Way(lanes, cores() // lanes, max(1, round(sizes[-1])), callers)
            fetching = question.options is not None
            runtimes.append(run_raw(graph, asked, way, seconds, maps=fetching).cpu * 1e3)
        answered = run_clean(Plan(echo.target, ECHO, messages, seconds / 2, concurrency=callers, pids=echo.pids))
        echoes.append(answered.server_cpu / answered.done * 1e3)
        others.append(answered.others / answered.seconds / cores())
    median = statistics.median
    return Cost(
        what=named(question, lengths),
        callers=callers,
        rate=median(rates),
        rows=median(sizes),
        runtime=median(runtimes) if runtimes else None,
        echo=median(echoes),
        others=median(others),
        threads={kind: median(found) for kind, found in threads.items()},
    )


def rows_so_far(metrics: str, model: str) -> tuple[float, float]:
    """Rows that a model has had so far, and batches. metrics: where the server's page of them is."""
    page = urllib.request.urlopen(metrics, timeout=30).read().decode()
    found = [re.search(rf'limelight_batch_rows_{each}{{model="{model}"}} (\S+)', page) for each in ("sum", "count")]
    rows, batches = (float(each[1]) if each else 0.0 for each in found)
    return rows, batches


def tables(rows: Sequence[Cost]) -> list[str]:
    """The table of a run."""
    kinds = [each for each in KINDS if each != LANES and any(row.threads[each] for row in rows)]
    head = ["calls", "requests/s", "rows a batch", "runtime alone, ms a row", "lanes, ms a call", *kinds]
    head += ["all", "÷ runtime", "bare echo", "others"]

    def lines() -> Iterator[list[str]]:
        for each in rows:
            total = sum(each.threads.values())
            yield [
                f"{each.what}, {each.callers} at a time",
                f"{each.rate:.0f}",
                f"{each.rows:.1f}",
                "–" if each.runtime is None else f"{each.runtime:.2f}",
                f"{each.threads[LANES]:.2f}",
                *(f"{each.threads[kind]:.2f}" for kind in kinds),
                f"{total:.2f}",
                "–" if each.runtime is None else f"{total / each.runtime:.2f}",
                f"{each.echo:.2f}",
                f"{each.others:.0%}",
            ]

    return table(head, lines())


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    repository = ROOT / "build" / "benchmarks"
    graph = make_repository(repository) / "model.onnx"
    port = free_port()
    metrics = f"http://127.0.0.1:{port}/metrics"
    with ServerProcess(repository, "--metrics-port", str(port)) as server, Echo() as echo:
        rows = [
            measure(server, metrics, echo, graph, load, turns=options.turns, seconds=options.seconds) for load in LOADS
        ]
    print("\n".join(tables(rows)))
    save("breakdown", rows, keep=options.keep)


if __name__ == "__main__":
    main()
