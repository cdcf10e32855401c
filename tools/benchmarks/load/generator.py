"""The process of the load generator: `run_load` starts it with a plan and returns its outcome."""

import contextlib
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.load.drive import closed, failures, open_loop
from benchmarks.load.plan import Outcome, Plan, merge

_ROOT = Path(__file__).parents[3]


class LoadError(RuntimeError):
    """A load whose calls were not all answered, or answered wrongly."""


def run_load(plan: Plan, *, processes: int = 1) -> Outcome:
    """Run a plan away from the caller's own process, shared among several. Raises: LoadError."""
    callers = [plan.concurrency // processes + (each < plan.concurrency % processes) for each in range(processes)]
    shares = [
        replace(plan, rate=plan.rate / processes, concurrency=own, seed=plan.seed + number)
        for number, own in enumerate(callers)
    ]
    command = [sys.executable, "-m", "benchmarks.load.generator"]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=_ROOT) for _ in shares]
    for process, share in zip(running, shares, strict=True):
        assert process.stdin is not None
        pickle.dump(share, process.stdin)
        process.stdin.close()
    outcomes = []
    for process in running:
        assert process.stdout is not None
        with process.stdout as answer:
            content = answer.read()
        if process.wait():
            raise LoadError(f"the load generator ended with status {process.returncode}")
        outcomes.append(pickle.loads(content))
    return merge(outcomes)


def run_clean(plan: Plan, *, processes: int = 1) -> Outcome:
    """Run a plan whose calls must all be answered. Raises: LoadError where one is not."""
    outcome = run_load(plan, processes=processes)
    if failed := failures(outcome):
        raise LoadError(f"{plan.method}: calls failed, by status: {failed}")
    return outcome


def main() -> None:
    """Read a plan, run it, write its outcome."""
    plan: Plan = pickle.load(sys.stdin.buffer)
    if plan.cores:
        os.sched_setaffinity(0, plan.cores)
    # A caller elsewhere would not wait for the server's threads to leave a core: nor does this one, where it may.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    outcome = closed(plan) if plan.concurrency else open_loop(plan)
    pickle.dump(outcome, sys.stdout.buffer)


if __name__ == "__main__":
    main()
