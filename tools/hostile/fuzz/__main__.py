"""Sends a server hostile requests, built from its own descriptors, and reports failures.

    python -m hostile.fuzz --calls 1000000 --keep # 15 minutes on two idle cores, 10 more at rest
    python -m hostile.fuzz --seconds 30           # for trying
    python -m hostile.fuzz --calls 2000000 --resume
    python -m hostile.fuzz --replay build/fuzz/findings/INTERNAL-123.json
    python -m hostile.fuzz --shrink build/fuzz/findings/INTERNAL-123.json

Valid requests to every model are changed field by field (numbers at their edges, strings that are hard to read, fields
by the thousand, parts of other requests, images that are cut) and byte by byte (what no library writes), for every
method of the service, of health and of reflection. Some have deadlines that pass, some are cancelled, some connections
hang up. Every 20th call is good, with an input that no other call has; between two rounds it is asked again, alone, and
the answers must be the same. Call n of a seed is always the same. What fails is kept in build/fuzz/findings.
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc

from benchmarks import records
from benchmarks.load import percentile
from benchmarks.process import ServerProcess, free_port, healthy
from benchmarks.records import ROOT, origin, place
from hostile.fuzz.findings import Findings, read, send, shrunk, write
from hostile.fuzz.repository import write_repository
from hostile.fuzz.requests import Requests
from hostile.fuzz.run import GIVES_BACK_SECONDS, Attack, Report, said
from hostile.page import RECORDS

FOLDER = ROOT / "build" / "fuzz"
_FAILURES = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)


def fuzz(report: Report, file: Path, calls: int, seconds: float, width: int, a_round: int, frontends: int) -> None:
    """Attack a server of so many frontends (0: one process) until so many calls were made or the time is over."""
    port, until = free_port(), time.monotonic() + seconds
    log = FOLDER / f"server-{report.seed}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        repository = write_repository(Path(folder))
        flags = ("--metrics-port", str(port), "--frontends", str(frontends))
        with ServerProcess(repository, *flags, log=log) as server:
            report.memory, report.at = [], []
            findings = Findings(FOLDER / "findings")
            attack = Attack(server, port, report, findings, width=width, settles=GIVES_BACK_SECONDS)
            while report.calls < calls and time.monotonic() < until:
                attack.round(min(a_round, calls - report.calls), until)
                report.save(file)
                print(f"{report.calls} calls, {report.failures} failures, {report.memory[-1]:.0f} MiB", flush=True)


def with_server(what: str, file: Path) -> None:
    """Send one finding alone, or make it smaller."""
    method, message = read(file)
    with ExitStack() as stack:
        repository = write_repository(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        server = stack.enter_context(ServerProcess(repository))
        channel = stack.enter_context(grpc.insecure_channel(server.target))
        code = send(channel, method, message)
        print(f"{method} with {len(message)} bytes: {code.name}; {'alive' if healthy(channel) else 'not well'}")
        if what == "shrink" and code in _FAILURES:
            kind = Requests.of(channel, 0).methods[method]
            small = shrunk(message, kind, lambda each: send(channel, method, each) is code)
            write(file.with_suffix(".small.json"), method, small, code.name)
            print(f"{len(small)} bytes are enough: {small!r}")


def record(report: Report) -> dict[str, Any]:
    """Give what is recorded of a run. memory: MiB of the server's own, at rest after `at` calls; health: ms."""
    probes = [each * 1e3 for each in report.health]
    kept = ("seed", "calls", "failures", "gauges_left", "golden", "at", "memory")
    return {
        **origin(),
        **{name: getattr(report, name) for name in kept},
        "seconds": round(report.seconds),
        "health_p50": round(percentile(probes, 0.5), 1),
        "health_p99": round(percentile(probes, 0.99), 1),
    }


def main() -> None:
    """Run the fuzzer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=0, help="so many, together with those before --resume")
    parser.add_argument("--seconds", type=float, default=0.0, help="at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=64, help="calls in flight")
    parser.add_argument("--round", type=int, default=20_000, help="calls between two looks at the server at rest")
    parser.add_argument("--frontends", type=int, default=0, help="of the server; 0 for one process")
    parser.add_argument("--resume", action="store_true", help="go on where a run of this seed stopped")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    parser.add_argument("--replay", type=Path, help="send one finding alone")
    parser.add_argument("--shrink", type=Path, help="make one finding as small as it can be")
    options = parser.parse_args()
    if options.replay or options.shrink:
        with_server("shrink" if options.shrink else "replay", options.shrink or options.replay)
        return
    if not options.calls and not options.seconds:
        parser.error("say how many --calls, or how many --seconds")
    file = FOLDER / f"report-{options.seed}.json"
    report = Report.load(file) if options.resume and file.exists() else Report(options.seed)
    seconds = options.seconds or float("inf")
    calls = options.calls or sys.maxsize
    fuzz(report, file, calls, seconds, options.width, options.round, options.frontends)
    print(said([report]))
    records.write(place("fuzz", keep=options.keep, folder=RECORDS), record(report))
    if report.failures or report.gauges_left or report.golden.get("mixed"):
        sys.exit(1)


if __name__ == "__main__":
    main()
