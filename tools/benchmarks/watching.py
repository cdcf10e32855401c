"""The cost of traces and attention signals: `python -m benchmarks.watching`.

Predictions of a model of about 50 µs in closed loops, by servers that do not watch, that trace every call, and that
look at the attention of a share of calls; by turns. Traces go to a collector that takes and forgets them.
"""

import argparse
import os
import statistics
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.encoder import make_repository
from benchmarks.load import Outcome, Plan, run_clean
from benchmarks.process import ServerProcess
from benchmarks.records import ROOT
from benchmarks.serving.inputs import PREDICT_TINY, TINY_LENGTH, rows_of
from benchmarks.tables import of_rows

_CALLERS = (1, 8)
_WAYS = {
    "off": (),
    "traced": ("--tracing",),
    "attention of 1 %": ("--attention-signals", "0.01"),
    "attention of all": ("--attention-signals", "1"),
}


@dataclass(frozen=True)
class Cost:
    """Medians of the rounds. cpu: ms of the server a call; times in ms."""

    watching: str
    callers: int
    cpu: float
    p50: float
    p99: float


@contextmanager
def collector() -> Iterator[str]:
    """Take traces over OTLP and forget them; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Take a message."""
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _cost(watching: str, callers: int, outcomes: list[Outcome]) -> Cost:
    return Cost(
        watching=watching,
        callers=callers,
        cpu=statistics.median(each.cpu for each in outcomes),
        p50=statistics.median(each.milliseconds(0.5) for each in outcomes),
        p99=statistics.median(each.milliseconds(0.99) for each in outcomes),
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    repository = ROOT / "build" / "benchmarks"
    make_repository(repository)
    messages = list(map(PREDICT_TINY.serialise, rows_of(TINY_LENGTH)))
    rows = []
    with ExitStack() as stack:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = stack.enter_context(collector())
        servers = {
            way: stack.enter_context(ServerProcess(repository, "--provider", "cpu", *flags))
            for way, flags in _WAYS.items()
        }
        for callers in _CALLERS:
            plan = Plan("", PREDICT_TINY.method, messages, options.seconds, concurrency=callers)
            outcomes: dict[str, list[Outcome]] = {way: [] for way in servers}
            for _ in range(options.rounds):
                for way, server in servers.items():
                    outcomes[way].append(run_clean(replace(plan, target=server.target, pids=server.pids)))
            rows += [_cost(way, callers, found) for way, found in outcomes.items()]
    print("\n".join(of_rows(rows)))


if __name__ == "__main__":
    main()
