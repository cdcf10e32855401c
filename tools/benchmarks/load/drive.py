"""The loops of the generator: closed, an answer before each further call, and open, with calls at given times."""

import itertools
import select
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.load.plan import DEADLINE_EXCEEDED, OK, Outcome, Plan, arrivals, percentile
from benchmarks.load.processor import cpu_seconds, machine_seconds
from benchmarks.load.wire import Connection, Ended, message

_LONGEST_WAIT = 5.0  # seconds, for the first answers
_DRAIN = 1.0  # seconds that calls under way may take once a closed loop has ended


class _Wires:
    """All connections as one: calls go round, and ended calls are yielded with their connection."""

    def __init__(self, plan: Plan) -> None:
        count = min(plan.connections, plan.concurrency or plan.connections)
        self._all = [Connection(plan.target, plan.method, timeout=plan.deadline) for _ in range(count)]
        self._by_socket = {each.socket: each for each in self._all}
        self._round = itertools.cycle(self._all)
        self._messages = itertools.cycle([message(each) for each in plan.messages])

    def send(self) -> tuple[Connection, int]:
        """Begin the next call."""
        wire = next(self._round)
        return wire, wire.send(next(self._messages))

    def send_on(self, wire: Connection) -> tuple[Connection, int]:
        """Begin the next call where the caller's last one was."""
        return wire, wire.send(next(self._messages))

    def wait(self, seconds: float) -> Iterator[tuple[Connection, Ended]]:
        """Yield what ends within so many seconds, at least looking once."""
        writing = [each.socket for each in self._all if each.writes]
        # select, not epoll: its time-outs are finer than a millisecond.
        readable, writable, _ = select.select(list(self._by_socket), writing, [], max(0.0, seconds))
        for each in writable:
            self._by_socket[each].flush()
        for each in readable:
            wire = self._by_socket[each]
            for ended in wire.receive():
                yield wire, ended

    @property
    def received(self) -> int:
        return sum(each.received for each in self._all)

    @property
    def held(self) -> int:
        return sum(each.held for each in self._all)

    def close(self) -> None:
        for each in self._all:
            each.close()


@dataclass(frozen=True)
class _Clocks:
    """Processor times at a moment: the server's, the generator's own, the machine's."""

    server: float
    own: float
    machine: float

    @classmethod
    def read(cls, plan: Plan) -> "_Clocks":
        return cls(cpu_seconds(plan.pids), time.process_time(), machine_seconds())

    def since(self, before: "_Clocks") -> "_Clocks":
        """Give the processor times since then."""
        return _Clocks(self.server - before.server, self.own - before.own, self.machine - before.machine)

    @property
    def others(self) -> float:
        """Give the processor time of all other programs since then."""
        return max(0.0, self.machine - self.server - self.own)


def closed(plan: Plan) -> Outcome:
    """Keep `plan.concurrency` calls under way.

    Answers come in batches: what counts begins and ends right after one, and lasts until every caller had two answers,
    within limits, so that a batch more or less does not decide.
    """
    wires = _Wires(plan)
    begun = {wires.send(): time.perf_counter() for _ in range(plan.concurrency)}
    latencies: dict[int, list[float]] = {}
    retry, answered, start = 0, 0, time.perf_counter()
    opened, received, before = 0.0, 0, _Clocks.read(plan)
    while True:
        came = False
        for wire, ended in wires.wait(0.05):
            now = time.perf_counter()
            latencies.setdefault(ended.status, []).append(now - begun.pop((wire, ended.call)))
            retry += ended.retry
            came = True
            answered += 1
            begun[wires.send_on(wire)] = now
        now = time.perf_counter()
        if opened:
            elapsed = now - opened
            enough = came and elapsed >= plan.seconds and answered >= 2 * plan.concurrency
            if enough or elapsed >= 2 * plan.seconds + _LONGEST_WAIT:
                break
        elif (came and now - start > plan.warm and answered >= plan.concurrency) or now - start > _LONGEST_WAIT:
            opened, received, before = now, wires.received, _Clocks.read(plan)
            latencies, retry, answered = {}, 0, 0
    seconds, spent = time.perf_counter() - opened, _Clocks.read(plan).since(before)
    outcome = Outcome(
        seconds=seconds,
        latencies=latencies,
        retry=retry,
        received=wires.received - received,
        server_cpu=spent.server,
        generator_cpu=spent.own,
        others=spent.others,
    )
    until = time.perf_counter() + _DRAIN
    while begun and time.perf_counter() < until:
        for wire, ended in wires.wait(0.05):
            begun.pop((wire, ended.call))
    wires.close()
    return outcome


def open_loop(plan: Plan) -> Outcome:
    """Send at random times, whatever was answered; latency counts from the time that was meant.

    A call is given up when its deadline has passed since it was sent, as every client does.
    """
    wires = _Wires(plan)
    total = plan.warm + plan.seconds
    times = (
        [n / plan.rate for n in range(int(total * plan.rate))] if plan.even else arrivals(plan.rate, total, plan.seed)
    )
    origin = time.perf_counter()
    meant: dict[tuple[Connection, int], float] = {}
    expiring: deque[tuple[float, tuple[Connection, int]]] = deque()
    latencies: dict[int, list[float]] = {}
    lags: list[float] = []
    retry, place = 0, 0
    before: _Clocks | None = None
    after: _Clocks | None = None
    end = origin + total
    last = end + (plan.deadline or 30.0) + 1.0
    while (now := time.perf_counter()) < last and (now < end or meant):
        if before is None and now >= origin + plan.warm:
            before = _Clocks.read(plan)
        if after is None and now >= end:
            after = _Clocks.read(plan)
        while place < len(times) and origin + times[place] <= now:
            lags.append(time.perf_counter() - origin - times[place])
            call = wires.send()
            meant[call] = times[place]
            if plan.deadline is not None:
                expiring.append((time.perf_counter() + plan.deadline, call))
            place += 1
        while expiring and expiring[0][0] <= now:
            _, call = expiring.popleft()
            if (intended := meant.pop(call, None)) is not None:
                call[0].cancel(call[1])
                if intended >= plan.warm:
                    latencies.setdefault(DEADLINE_EXCEEDED, []).append(now - origin - intended)
        due = origin + times[place] if place < len(times) else (end if now < end else now + 0.05)
        for wire, ended in wires.wait(min(due - time.perf_counter(), 0.05)):
            intended = meant.pop((wire, ended.call))
            if intended >= plan.warm:
                latencies.setdefault(ended.status, []).append(time.perf_counter() - origin - intended)
                retry += ended.retry
    after = after or _Clocks.read(plan)
    spent = after.since(before or after)
    wires.close()
    return Outcome(
        seconds=plan.seconds,
        latencies=latencies,
        retry=retry,
        lag=percentile(lags, 0.99),
        unanswered=sum(each >= plan.warm for each in meant.values()),
        received=wires.received,
        held=wires.held,
        server_cpu=spent.server,
        generator_cpu=spent.own,
        others=spent.others,
    )


def failures(outcome: Outcome) -> dict[int, int]:
    """Calls by the status that they failed with."""
    return {status: len(values) for status, values in outcome.latencies.items() if status != OK}
