"""Load on a gRPC server by the loops of `limelight bench`, from processes of their own.

`run_load` starts them with a plan and returns the outcome of all.
"""

import asyncio
import contextlib
import math
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import grpc

from benchmarks.processor import cpu_seconds, machine_seconds
from benchmarks.records import ROOT
from limelight.cli.bench import channels
from limelight.cli.bench.load import NOT_SENT, Load, Recorder, Send, run
from limelight.cli.connection import Connection

OK, RESOURCE_EXHAUSTED = 0, 8
_DEADLINE = 60.0  # seconds, of calls whose plan has none
_LONGEST_WAIT = 5.0  # seconds, for the first answers
_DRAIN = 1.0  # seconds that calls under way may take once a closed loop has ended
_LOOK = 0.005  # seconds between two looks at a closed loop


class LoadError(RuntimeError):
    """A load whose calls were not all answered, or answered wrongly."""


@dataclass(frozen=True)
class Plan:
    """A load: closed with `concurrency` callers, or open with `rate` calls a second at random times.

    messages: serialised requests, sent in turn. seconds: of the part that counts, after `warm` and, in a closed loop,
    after as many answers as there are callers. deadline: of each call. streams: whether the method answers with a
    stream. pids: processes whose processor time is the server's. cores: where the generator runs, anywhere if empty.
    """

    target: str
    method: str
    messages: Sequence[bytes]
    seconds: float
    concurrency: int = 0
    rate: float = 0.0
    warm: float = 0.3
    deadline: float | None = None
    streams: bool = False
    connections: int = 8
    seed: int = 1
    pids: Sequence[int] = ()
    cores: Sequence[int] = ()


@dataclass(frozen=True)
class Outcome:
    """The outcome of a load, in seconds.

    latencies: by gRPC status; in an open loop from when a call was meant to be sent. lag: the 99th percentile of how
    late calls were sent. others: processor time of everything but server and generator. retry: calls that ended with
    RetryInfo. unsent: calls for which too many others were under way. received: bytes of answers.
    """

    seconds: float
    latencies: dict[int, list[float]]
    server_cpu: float
    generator_cpu: float
    retry: int = 0
    lag: float = 0.0
    others: float = 0.0
    unsent: int = 0
    received: int = 0

    @property
    def done(self) -> int:
        """Calls that were answered."""
        return len(self.latencies.get(OK, ()))

    @property
    def rate(self) -> float:
        """Answers a second, as they came."""
        return self.done / self.seconds

    @property
    def cpu(self) -> float:
        """Processor time of the server a call, in ms."""
        return self.server_cpu / max(1, self.done) * 1e3

    def milliseconds(self, share: float) -> float:
        """The latency that this share (0 to 1) of the answered calls do not exceed, in ms."""
        return percentile(self.latencies.get(OK, ()), share) * 1e3

    def goodput(self, deadline: float) -> float:
        """Answers a second that came before their deadline."""
        return sum(each <= deadline for each in self.latencies.get(OK, ())) / self.seconds

    def rate_without_generator(self, cores: int) -> float:
        """Answers a second with the generator's processor time given back, as if the load came from another machine.

        It holds where the generator shared the server's cores and the server can use all of them.
        """
        return self.done / (self.seconds - self.generator_cpu / cores)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share (0 to 1) of the values do not exceed; NaN of none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def merge(outcomes: Sequence[Outcome]) -> Outcome:
    """Merge the outcomes of generators that ran at the same time against one server."""
    latencies: dict[int, list[float]] = {}
    for outcome in outcomes:
        for status, values in outcome.latencies.items():
            latencies.setdefault(status, []).extend(values)
    return replace(
        outcomes[0],
        seconds=sum(each.seconds for each in outcomes) / len(outcomes),
        latencies=latencies,
        generator_cpu=sum(each.generator_cpu for each in outcomes),
        server_cpu=max(each.server_cpu for each in outcomes),
        retry=sum(each.retry for each in outcomes),
        lag=max(each.lag for each in outcomes),
        others=max(0.0, outcomes[0].others - sum(each.generator_cpu for each in outcomes[1:])),
        unsent=sum(each.unsent for each in outcomes),
        received=sum(each.received for each in outcomes),
    )


def run_load(plan: Plan, *, processes: int = 1) -> Outcome:
    """Run a plan away from the caller's own process, shared among several. Raises: LoadError."""
    callers = [plan.concurrency // processes + (each < plan.concurrency % processes) for each in range(processes)]
    shares = [
        replace(plan, rate=plan.rate / processes, concurrency=own, seed=plan.seed + number)
        for number, own in enumerate(callers)
    ]
    command = [sys.executable, "-m", "benchmarks.load"]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) for _ in shares]
    for process, share in zip(running, shares, strict=True):
        assert process.stdin is not None
        pickle.dump(vars(share), process.stdin)
        process.stdin.close()
    outcomes = []
    for process in running:
        assert process.stdout is not None
        with process.stdout as answer:
            content = answer.read()
        if process.wait():
            raise LoadError(f"the load generator ended with status {process.returncode}")
        outcomes.append(Outcome(**pickle.loads(content)))
    return merge(outcomes)


def run_clean(plan: Plan, *, processes: int = 1) -> Outcome:
    """Run a plan whose calls must all be answered. Raises: LoadError where one is not."""
    outcome = run_load(plan, processes=processes)
    if failed := {status: len(values) for status, values in outcome.latencies.items() if status != OK}:
        raise LoadError(f"{plan.method}: calls failed, by status: {failed}")
    return outcome


async def drive(plan: Plan) -> Outcome:
    """Run a plan in this process."""
    count = min(plan.connections, plan.concurrency or plan.connections)
    connection, deadline = Connection(plan.target, _DEADLINE, {}), plan.deadline or _DEADLINE
    async with channels.opened(connection, count=count, attempts=1, timeout=deadline) as opened:
        send = opened.sender(plan.method, plan.messages, streams=plan.streams)
        return await (_closed(plan, send) if plan.concurrency else _open(plan, send))


async def _closed(plan: Plan, send: Send) -> Outcome:
    """Keep `plan.concurrency` calls under way.

    Answers come in batches: what counts begins and ends right after one, and lasts until every caller had two answers,
    within limits, so that a batch more or less does not decide.
    """
    record = Recorder()
    running = asyncio.create_task(run(send, Load(plan.concurrency), record))
    begin = await _after_answer(record, lambda: record.now > plan.warm and len(record.ends) >= plan.concurrency)
    first, before = len(record.ends), _clocks(plan)

    def enough() -> bool:
        return record.now - begin >= plan.seconds and len(record.ends) - first >= 2 * plan.concurrency

    end = await _after_answer(record, enough, 2 * plan.seconds)
    last, after = len(record.ends), _clocks(plan)
    record.stopped = True
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(running, _DRAIN)
    return _outcome(record, range(first, last), end - begin, before, after)


async def _after_answer(record: Recorder, enough: Callable[[], bool], seconds: float = 0.0) -> float:
    """Wait until an answer comes after which there is enough, or too long; give the time of the last answer, or now."""
    most, seen = record.now + seconds + _LONGEST_WAIT, len(record.ends)
    while record.now < most:
        await asyncio.sleep(_LOOK)
        if len(record.ends) > seen and enough():
            return record.ends[-1]
        seen = len(record.ends)
    return record.now


async def _open(plan: Plan, send: Send) -> Outcome:
    """Send at random times, whatever was answered; latency counts from the time that was meant."""
    record = Recorder()
    load = Load(rate=plan.rate, seconds=plan.warm + plan.seconds, seed=plan.seed)
    running = asyncio.create_task(run(send, load, record))
    await asyncio.sleep(plan.warm)
    before = _clocks(plan)
    await asyncio.sleep(plan.seconds)
    after = _clocks(plan)
    await running
    counted = [n for n in range(len(record.ends)) if record.ends[n] - record.latencies[n] >= plan.warm]
    return _outcome(record, counted, plan.seconds, before, after)


def _clocks(plan: Plan) -> tuple[float, float, float]:
    """Read the processor times of the server, of this generator, and of the machine."""
    return cpu_seconds(plan.pids), time.process_time(), machine_seconds()


def _outcome(
    record: Recorder, counted: Sequence[int], seconds: float, before: Sequence[float], after: Sequence[float]
) -> Outcome:
    """Give the outcome of the calls that count."""
    server, own, machine = (late - early for early, late in zip(before, after, strict=True))
    latencies: dict[int, list[float]] = {}
    for number in counted:
        if record.codes[number] != NOT_SENT:
            status = grpc.StatusCode[record.codes[number]].value[0]
            latencies.setdefault(status, []).append(record.latencies[number])
    return Outcome(
        seconds=seconds,
        latencies=latencies,
        server_cpu=server,
        generator_cpu=own,
        retry=sum(record.retries[number] for number in counted),
        lag=percentile(record.lags, 0.99) if record.lags else 0.0,
        others=max(0.0, machine - server - own),
        unsent=sum(record.codes[number] == NOT_SENT for number in counted),
        received=sum(record.sizes[number] for number in counted),
    )


def main() -> None:
    """Read a plan, run it, write its outcome."""
    plan = Plan(**pickle.load(sys.stdin.buffer))
    if plan.cores:
        os.sched_setaffinity(0, plan.cores)
    # A caller elsewhere would not wait for the server's threads to leave a core: nor does this one, where it may. At a
    # real-time priority it would wake for every answer alone, which triples its processor time.
    with contextlib.suppress(OSError):
        os.setsid()
        os.setpriority(os.PRIO_PROCESS, 0, -19)
        Path("/proc/self/autogroup").write_text("-19")  # the kernel shares cores among sessions first
    pickle.dump(vars(asyncio.run(drive(plan))), sys.stdout.buffer)


if __name__ == "__main__":
    main()
