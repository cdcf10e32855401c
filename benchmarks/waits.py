"""What the server's threads wait for, by the kernel's account: `python -m benchmarks.waits`.

The kernel tells of every thread that leaves a core, with its stack, and of every one that is woken. That needs Linux's
perf (Debian: linux-perf), the right to trace every process, which root has, and a Python whose library names its
functions. Two minutes. --keep writes docs/performance.md.
"""

import argparse
import re
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.breakdown import named
from benchmarks.demo_calls import DEMO, KINDS
from benchmarks.encoder import make_repository
from benchmarks.kept import save
from benchmarks.load.generator import run_load
from benchmarks.load.plan import OK, Plan
from benchmarks.overload import DEADLINE, capacity
from benchmarks.process import ROOT, ServerProcess, cores
from benchmarks.serving.inputs import ALL_MAPS, PREDICT_IT, PREDICT_TINY, TINY_LENGTH, Question, rows_of
from benchmarks.tables import table
from benchmarks.threads import ANSWERS, LANES, TAKES, threads_of

_CLOSED: tuple[tuple[Question, str, int], ...] = (
    (PREDICT_IT, "32", 8),
    (PREDICT_IT, "32", 32),
    (ALL_MAPS, "128", 16),
    (PREDICT_TINY, TINY_LENGTH, 32),
)
_REQUESTS = 64
_FACTOR = 2.0  # times the capacity
_TRACED = 0.7  # seconds of a load: some ten thousand events
_STACK = 4096  # bytes of it that are kept of each event
_KINDS = {TAKES: TAKES, ANSWERS: ANSWERS, LANES: "a lane"}
_HEAD = re.compile(r".+?\s+\d+\s+([\d.]+): sched:(sched_switch|sched_waking): (.*)")
_SWITCH = re.compile(r"prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=.* next_pid=(\d+)")
_WAKING = re.compile(r"pid=(\d+)")
_LOCK = "take_gil"
_WORKS, _WANTS_LOCK, _WANTS_CORE, _RESTS = "at work", "waits for the lock", "waits for a core", "has nothing to do"
_STATES = (_WORKS, _WANTS_LOCK, _WANTS_CORE, _RESTS)


@dataclass(frozen=True)
class Waited:
    """What became of the time of one kind of thread under one load, as shares that make up 1.

    answered: calls a second. idle: cores that nothing used, of all.
    """

    what: str
    answered: float
    thread: str
    shares: dict[str, float]
    idle: float


def shares(lines: Iterable[str], threads: Sequence[int]) -> tuple[dict[int, dict[str, float]], float]:
    """Tell what threads did, from what `perf script` writes of switches with their stacks, and of wakings.

    Returns: of each thread the share of the time in each state, from its first switch to the last event; and how many
    cores had no thread.
    """
    state: dict[int, tuple[float, str]] = {}
    spent: defaultdict[int, Counter[str]] = defaultdict(Counter)
    first: float | None = None
    now = working = 0.0
    began: dict[int, float] = {}

    def turn(thread: int, to: str) -> None:
        if thread in state:
            since, was = state[thread]
            spent[thread][was] += now - since
        state[thread] = now, to

    for now, kind, said, stack in _events(lines):
        first = now if first is None else first
        if kind == "sched_waking":
            woken = _WAKING.search(said)
            if woken and state.get(int(woken[1]), (0.0, ""))[1] in (_WANTS_LOCK, _RESTS):
                turn(int(woken[1]), _WANTS_CORE)
        elif switch := _SWITCH.match(said):
            left, follows = int(switch[1]), int(switch[3])
            working += now - began.pop(left, now) if left else 0.0
            began[follows] = now
            if left in threads:
                waits = _WANTS_LOCK if _LOCK in stack else _RESTS
                turn(left, _WANTS_CORE if switch[2].startswith("R") else waits)
            if follows in threads:
                turn(follows, _WORKS)
    for thread in list(state):
        turn(thread, _RESTS)
    found = {}
    for thread, each in spent.items():
        whole = sum(each.values())
        found[thread] = {name: each[name] / whole for name in _STATES} if whole else {}
    return found, cores() - working / (now - first) if first is not None and now > first else 0.0


def _events(lines: Iterable[str]) -> Iterator[tuple[float, str, str, str]]:
    """Give time, kind, what is said, and the names on the stack of each event."""
    head: re.Match[str] | None = None
    stack: list[str] = []
    for line in lines:
        if line.strip() and not line[0].isspace():
            if head:
                yield float(head[1]), head[2], head[3], " ".join(stack)
            head, stack = _HEAD.match(line), []
        elif line.strip():
            stack.append(line.split(None, 1)[-1].strip())
    if head:
        yield float(head[1]), head[2], head[3], " ".join(stack)


def traced(
    plan: Plan, threads: Sequence[int], *, processes: int = 1
) -> tuple[float, dict[int, dict[str, float]], float]:
    """Run a load, and look at threads in the middle. Returns: calls answered a second, and what `shares` gives."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "perf.data"
        recording = threading.Thread(target=_record, args=(file, plan.warm + plan.seconds / 2))
        recording.start()
        outcome = run_load(plan, processes=processes)
        recording.join()
        command = ["perf", "script", "--no-inline", "-F", "comm,tid,time,event,trace,ip,sym", "-i", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as script:
            assert script.stdout is not None
            found, idle = shares(script.stdout, threads)
    return len(outcome.latencies.get(OK, ())) / outcome.seconds, found, idle


def _record(file: Path, after: float) -> None:
    time.sleep(after)
    events = ["-e", "sched:sched_switch", "-e", "sched:sched_waking"]
    command = ["perf", "record", "-q", "-a", *events, "--call-graph", f"dwarf,{_STACK}", "-m", "16M", "-o", str(file)]
    subprocess.run([*command, "--", "sleep", str(_TRACED)], check=True, stderr=subprocess.DEVNULL)


def measure(what: str, server: ServerProcess, plan: Plan, turns: int, *, processes: int = 1) -> Iterator[Waited]:
    """Look at a load several times, and take medians."""
    threads = {number: _KINDS[kind] for number, kind in threads_of(server.pids).items() if kind in _KINDS}
    rates, idles = list[float](), list[float]()
    found: defaultdict[str, list[Mapping[str, float]]] = defaultdict(list)
    for _ in range(turns):
        rate, of_threads, idle = traced(plan, list(threads), processes=processes)
        rates.append(rate)
        idles.append(idle)
        for number, each in of_threads.items():
            found[threads[number]].append(each)
    median = statistics.median
    for kind, seen in found.items():
        typical = {name: median(each[name] for each in seen) for name in _STATES}
        yield Waited(what, median(rates), kind, typical, median(idles))


def closed(turns: int, seconds: float) -> Iterator[Waited]:
    """Callers of the encoder, each of whom waits for his answer."""
    repository = ROOT / "build" / "benchmarks"
    make_repository(repository)
    with ServerProcess(repository) as server:
        for question, lengths, callers in _CLOSED:
            messages = [question.serialise(row) for row in rows_of(lengths)]
            plan = Plan(server.target, question.method, messages, seconds, concurrency=callers)
            yield from measure(f"{named(question, lengths)}, {callers} at a time", server, plan, turns)


def overloaded(turns: int, seconds: float) -> Iterator[Waited]:
    """Calls with a deadline to the demo models, more than can be answered."""
    for kind, (method, request) in KINDS.items():
        with ServerProcess(DEMO) as server:
            messages = [request(seed) for seed in range(_REQUESTS)]
            plan = Plan(server.target, method, messages, seconds, deadline=DEADLINE, warm=1.0)
            rate = _FACTOR * capacity(plan)
            what = f"{kind}, {_FACTOR:g} × the capacity"
            yield from measure(what, server, replace(plan, rate=rate), turns, processes=2)


def tables(rows: Sequence[Waited]) -> list[str]:
    """The table of a run."""
    head = ["calls", "answered/s", "thread", *_STATES, "cores idle"]
    return table(
        head,
        [
            [
                each.what,
                f"{each.answered:.0f}",
                each.thread,
                *(f"{each.shares[name]:.0%}" for name in _STATES),
                f"{each.idle:.2f}",
            ]
            for each in rows
        ],
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.5, help="of each load")
    parser.add_argument("--keep", action="store_true", help="keep the figures, and write the page of docs/")
    options = parser.parse_args()
    rows = [*closed(options.turns, options.seconds), *overloaded(options.turns, options.seconds)]
    print("\n".join(tables(rows)))
    save("waits", rows, keep=options.keep)


if __name__ == "__main__":
    main()
