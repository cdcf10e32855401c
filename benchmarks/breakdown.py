"""Where the processor time of a call goes, thread by thread: `python -m benchmarks.breakdown`.

The server runs in this process, so that its threads can be told apart; the load comes from another. Beside it stands
what the runtime alone takes for a row in batches of the size that the server made, and what a server costs that
only answers. A minute and a half. --keep writes docs/performance.md.
"""

import argparse
import asyncio
import contextlib
import re
import statistics
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.encoder import make_repository
from benchmarks.kept import save
from benchmarks.load.generator import run_clean
from benchmarks.load.plan import Plan
from benchmarks.peers.echo import ECHO, Echo
from benchmarks.process import ROOT, Process, cores
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
from service.command import limit_libraries
from service.configuration import load_settings
from service.metrics import Metrics
from service.server import running_server, settle_interpreter

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
    (PREDICT_TINY, TINY_LENGTH, 32),
)
_KINDS = {"server": "event loop", "lane": "lanes", "prepare": "preparation"}
_CORE = "gRPC, and the runtime's pool"


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
    place: "InProcess", echo: Process, graph: Path, load: tuple[Question, str, int], turns: int, seconds: float
) -> Cost:
    """Take turns between the server, the runtime and the echo."""
    question, lengths, callers = load
    asked = rows_of(lengths)
    messages = [question.serialise(row) for row in asked]
    rates, sizes, runtimes, echoes, others = [], [], [], [], []
    threads: dict[str, list[float]] = {kind: [] for kind in (*_KINDS.values(), _CORE)}
    for _ in range(turns):
        before, rows_before = thread_seconds(), place.rows(question.model)
        outcome = run_clean(Plan(place.target, question.method, messages, seconds, concurrency=callers))
        after, rows_after = thread_seconds(), place.rows(question.model)
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


def thread_seconds() -> Counter[str]:
    """Processor time of this process's threads so far, by what they do; those that Python did not
    start are gRPC's, and of a run on every core the runtime's.
    """
    names = {each.native_id: each.name for each in threading.enumerate()}
    total: Counter[str] = Counter()
    for task in Path("/proc/self/task").iterdir():
        name = names.get(int(task.name), "").partition("-")[0].partition("_")[0]
        if name == "MainThread":
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total[_KINDS.get(name, _CORE)] += int((task / "schedstat").read_text().split()[0]) / 1e9
    return total


class InProcess:
    """A server on a thread of this process, for the length of a block."""

    def __init__(self, repository: Path) -> None:
        flags = {"repository": str(repository), "port": 0, "metrics_port": 0, "log_level": "warning"}
        self._settings = load_settings(flags, environment={})
        self._metrics = Metrics()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="server")
        self.target = ""

    def __enter__(self) -> "InProcess":
        self._thread.start()
        self._ready.wait()
        settle_interpreter()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def rows(self, model: str) -> tuple[float, float]:
        """Rows that a model has had so far, and batches."""
        page = self._metrics.page().decode()
        found = [re.search(rf'limelight_batch_rows_{each}{{model="{model}"}} (\S+)', page) for each in ("sum", "count")]
        rows, batches = (float(each[1]) if each else 0.0 for each in found)
        return rows, batches

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with running_server(self._settings, metrics=self._metrics) as server:
            self.target = server.address
            self._ready.set()
            await self._stop.wait()


def tables(rows: Sequence[Cost]) -> list[str]:
    """The table of a run."""
    kinds = (*_KINDS.values(), _CORE)
    head = ["calls", "requests/s", "rows a batch", "runtime alone, ms a row", "lanes, ms a call"]
    head += [f"{kind}" for kind in kinds if kind != "lanes"] + ["all", "÷ runtime", "bare echo", "others"]

    def lines() -> Iterator[list[str]]:
        for each in rows:
            total = sum(each.threads.values())
            yield [
                f"{each.what}, {each.callers} at a time",
                f"{each.rate:.0f}",
                f"{each.rows:.1f}",
                "–" if each.runtime is None else f"{each.runtime:.2f}",
                f"{each.threads['lanes']:.2f}",
                *(f"{each.threads[kind]:.2f}" for kind in kinds if kind != "lanes"),
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
    limit_libraries()
    repository = ROOT / "build" / "benchmarks"
    graph = make_repository(repository) / "model.onnx"
    with InProcess(repository) as place, Echo() as echo:
        rows = [measure(place, echo, graph, load, options.turns, options.seconds) for load in LOADS]
    print("\n".join(tables(rows)))
    save("breakdown", rows, keep=options.keep)


if __name__ == "__main__":
    main()
