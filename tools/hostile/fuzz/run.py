"""A run in rounds: attack a server for a while, let it come to rest, look at what is left, check the golden answers."""

import json
import random
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import grpc

from benchmarks.load import OK, RESOURCE_EXHAUSTED, percentile
from benchmarks.process import Process
from benchmarks.processor import own_bytes
from hostile.fuzz.findings import Findings
from hostile.fuzz.flight import CANCELLED_BY_US, HUNG_UP, NO_END, Flight, Over
from hostile.fuzz.golden import Golden, difference
from hostile.fuzz.memory import grown
from hostile.fuzz.requests import GOLDEN_EVERY, Planned, Requests, framed
from hostile.fuzz.watch import HealthWatch

_REST_SECONDS = 60.0
_GAUGES = ("limelight_inflight_requests", "limelight_queue_depth")
_SLOW = 1.0  # seconds of a health probe after which the calls under way are kept
_LONG = 3.0  # seconds after which a call that was answered is kept
_ALONE_SECONDS = 60.0
GIVES_BACK_SECONDS = 20.0  # in which a quiet server gives back what the C library keeps: after 5 to 10
# Refusals that a busy server may give to a good call.
_BUSY = frozenset({RESOURCE_EXHAUSTED, 14})
NAMES = {code.value[0]: code.name for code in grpc.StatusCode} | {
    CANCELLED_BY_US: "cancelled here",
    HUNG_UP: "connection ended",
    NO_END: "no end",
}


@dataclass
class Report:
    """Results of a run so far. codes: of each method, by name. memory: MiB of the server's own at rest, before the
    first round and after each; at: after how many calls. health: seconds of every probe while attacked. golden: calls
    by what became of them.
    """

    seed: int
    next: int = 0
    seconds: float = 0.0
    calls: int = 0
    codes: dict[str, dict[str, int]] = field(default_factory=dict)
    failures: int = 0
    golden: dict[str, int] = field(default_factory=dict)
    memory: list[float] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    gauges_left: int = 0
    health: list[float] = field(default_factory=list)

    @classmethod
    def load(cls, file: Path) -> "Report":
        """Read one."""
        return cls(**json.loads(file.read_text(encoding="utf-8")))

    def save(self, file: Path) -> None:
        """Write it, for a run that goes on later."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    def count(self, over: Over) -> None:
        """Count a call."""
        by_code = self.codes.setdefault(over.planned.method, {})
        name = NAMES.get(over.status, str(over.status))
        by_code[name] = by_code.get(name, 0) + 1
        self.calls += 1
        self.failures += over.is_failure

    def lines(self) -> Iterator[str]:
        """Say it all."""
        rate = self.calls / max(self.seconds, 1e-9)
        yield f"seed {self.seed}: {self.calls} calls in {self.seconds:.0f} s, {rate:.0f} a second"
        strange = Counter[str]()
        for method, codes in sorted(self.codes.items(), key=lambda each: -sum(each[1].values())):
            if sum(codes.values()) < 50 and self.calls > 10_000:  # those with names that nobody has
                strange.update(codes)
                continue
            said = ", ".join(f"{name} {count}" for name, count in sorted(codes.items(), key=lambda each: -each[1]))
            yield f"  {method}: {said}"
        if strange:
            yield f"  methods that are not there: {dict(strange)}"
        yield f"INTERNAL, UNKNOWN or without an end: {self.failures}"
        yield f"golden calls: {self.golden}"
        yield f"memory at rest: {grown(self.at, self.memory) or 'too few rounds to tell whether it grows'}"
        yield f"gauges that did not go back to zero: {self.gauges_left}"
        probes = [each * 1e3 for each in self.health]
        if probes:
            yield (
                f"health, ms: {percentile(probes, 0.5):.1f} p50, {percentile(probes, 0.99):.1f} p99, "
                f"{percentile(probes, 0.999):.1f} p99.9, {max(probes):.1f} worst of {len(probes)}"
            )


class Attack:
    """Attacks one server. width: calls in flight. golden_every: of so many calls one is good. most_checked: of those,
    so many a round are asked again, alone. settles: seconds in which memory is looked at, the least counts.
    """

    def __init__(
        self,
        server: Process,
        metrics_port: int,
        report: Report,
        findings: Findings,
        *,
        width: int,
        golden_every: int = GOLDEN_EVERY,
        most_checked: int = sys.maxsize,
        settles: float = 0.0,
    ) -> None:
        self._server = server
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"
        self._report = report
        self._findings = findings
        self._channel = grpc.insecure_channel(server.target, [("grpc.max_receive_message_length", -1)])
        self._requests = Requests.of(self._channel, report.seed, golden_every=golden_every)
        self._most_checked = most_checked
        self._settles = settles
        self._large: list[Planned] = []
        self._answered: list[tuple[Golden, bytes]] = []
        self._flight = Flight(server.target, width, random.Random(report.seed), self._over)
        if not report.memory:
            self._note_memory()

    def round(self, calls: int, until: float) -> None:
        """Make so many calls, or as many as there is time for; then look at what is left."""
        report, started = self._report, time.monotonic()
        with HealthWatch(self._server.target) as health:
            sender = threading.Thread(target=self._send_large, args=(until,))
            over = threading.Event()
            watcher = threading.Thread(target=self._watch, args=(health, over))
            watcher.start()
            self._flight.run(self._planned(calls, until))
            sender.start()
            sender.join()
            over.set()
            watcher.join()
        report.seconds += time.monotonic() - started
        self.rest()
        self._check_golden()
        self._note_memory()

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    def _planned(self, calls: int, until: float) -> Iterator[Planned]:
        made = 0
        while made < calls and time.monotonic() < until:
            planned = self._requests.planned(self._report.next)
            self._report.next += 1
            if planned is None:
                continue
            made += 1
            if planned.large:
                self._large.append(planned)
            else:
                yield planned

    def _send_large(self, until: float) -> None:
        """Send what the fast client cannot, through the real one."""
        while self._large:
            planned = self._large.pop()
            if time.monotonic() > until + 30:
                continue
            status = OK
            try:
                for _ in self._channel.unary_stream(planned.method)(planned.body[5:], timeout=planned.timeout or 1.0):
                    pass
            except grpc.RpcError as error:
                status = error.code().value[0]  # type: ignore[attr-defined]
            except ValueError:  # a method that the client does not send
                continue
            self._over(Over(planned, status))

    def _over(self, over: Over) -> None:
        report, planned = self._report, over.planned
        report.count(over)
        if over.is_failure:
            said = over.trailers.decode("ascii", "replace")[-400:]
            self._findings.keep(NAMES.get(over.status, "?"), planned.number, planned.method, planned.body[5:], said)
        if over.seconds > _LONG:
            self._findings.keep("long", planned.number, planned.method, planned.body[5:], f"{over.seconds:.1f} s")
        if planned.golden is not None:
            if over.status == OK:
                self._answered.append((planned.golden, over.data))
            else:
                self._count_golden("busy" if over.status in _BUSY else NAMES.get(over.status, "?"))
                if over.status not in _BUSY and over.status != HUNG_UP and over.status != CANCELLED_BY_US:
                    self._findings.keep("golden", planned.number, planned.method, planned.body[5:], NAMES[over.status])

    def _count_golden(self, what: str) -> None:
        self._report.golden[what] = self._report.golden.get(what, 0) + 1

    def _watch(self, health: HealthWatch, over: threading.Event) -> None:
        """Keep what is under way while the server does not answer."""
        while not over.wait(0.2):
            seconds = health.taken()
            self._report.health += [round(each, 5) for each in seconds]
            if max(seconds, default=0.0) > _SLOW:
                for each in self._flight.under_way[:4]:
                    self._findings.keep(
                        "slow", each.number, each.method, each.body[5:], f"health took {max(seconds):.2f} s"
                    )

    def rest(self) -> None:
        """Wait until the server has nothing to do. Counts it where its gauges never say so."""
        end = time.monotonic() + _REST_SECONDS
        while left := self._gauges():
            if time.monotonic() > end:
                self._report.gauges_left += 1
                print(f"still there: {left}", flush=True)
                return
            time.sleep(0.1)

    def _gauges(self) -> dict[str, float]:
        """The gauges that are not zero."""
        page = urllib.request.urlopen(self._metrics, timeout=30).read().decode()
        lines = (line.rsplit(" ", 1) for line in page.splitlines() if line.startswith(_GAUGES))
        return {name: float(value) for name, value in lines if float(value)}

    def _note_memory(self) -> None:
        """Note the server's memory, the least of some seconds: in them it gives back what it does not need."""
        least, until = own_bytes(self._server.pids), time.monotonic() + self._settles
        while time.monotonic() < until:
            time.sleep(1.0)
            least = min(least, own_bytes(self._server.pids))
        self._report.memory.append(round(least / 2**20, 2))
        self._report.at.append(self._report.calls)

    def _check_golden(self) -> None:
        """Ask again for what was answered, now alone, and compare."""
        answered, self._answered = self._answered, []
        if len(answered) > self._most_checked:
            self._report.golden["not asked again"] = len(answered) - self._most_checked
            answered = random.Random(self._report.seed).sample(answered, self._most_checked)
        for made, data in answered:
            alone = self._alone(made)
            found = difference(made.answers(data), made.answers(alone))
            self._count_golden("mixed" if found else "the same")
            if found:
                body = made.request.SerializeToString()
                self._findings.keep("mixed", self._report.golden["mixed"], made.method, body, found)
                print(f"mixed: {made.method}{found}", flush=True)

    def _alone(self, made: Golden) -> bytes:
        call = self._channel.unary_stream(made.method)
        return b"".join(framed(each) for each in call(made.request.SerializeToString(), timeout=_ALONE_SECONDS))


def said(reports: Sequence[Report]) -> str:
    """Everything, as it is printed."""
    return "\n".join(line for report in reports for line in report.lines())
