"""What a call takes one caller whose answer is kept, and one whose is not: `python -m benchmarks.response_cache`.

Each request goes twice to a server with the response cache and to one without, by turns; --frontends for both.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc

from benchmarks.encoder import make_repository
from benchmarks.process import ServerProcess
from benchmarks.records import ROOT, save
from benchmarks.serving.inputs import ALL_MAPS, ONE_ROW, PREDICT_IT, PREDICT_TINY, TINY_LENGTH, rows_of
from benchmarks.tables import of_rows

CALLS = ((PREDICT_TINY, TINY_LENGTH), (PREDICT_IT, "128"), (ONE_ROW, "128"), (ALL_MAPS, "128"))
_FOR_NOTHING = 20  # calls before those that count
_KEPT = str(2**30)  # bytes: as much as all answers take


@dataclass(frozen=True)
class Timed:
    """Medians of a kind of calls, in ms. size: bytes of an answer. off: without the cache; first, again: with it."""

    calls: str
    size: int
    off: float
    first: float
    again: float


def measure(repository: Path, frontends: int, count: int) -> list[Timed]:
    """Start both servers, and call them by turns."""
    options = ("--provider", "cpu", "--frontends", str(frontends))
    found = []
    with ExitStack() as stack:
        off, on = (
            stack.enter_context(ServerProcess(repository, *options, "--response-cache-bytes", each))
            for each in ("0", _KEPT)
        )
        unlimited = [("grpc.max_receive_message_length", -1)]
        channels = [stack.enter_context(grpc.insecure_channel(each.target, unlimited)) for each in (off, on)]
        for kind, length in CALLS:
            without, kept = (each.unary_unary(kind.method) for each in channels)
            requests = [kind.serialise(each) for each in rows_of(length, _FOR_NOTHING + count)]
            for each in requests[:_FOR_NOTHING]:
                size, _ = len(without(each)), kept(each)
            times = [
                (_milliseconds(without, each), _milliseconds(kept, each), _milliseconds(kept, each))
                for each in requests[_FOR_NOTHING:]
            ]
            found.append(Timed(kind.name, size, *map(statistics.median, zip(*times, strict=True))))
            print(of_rows(found[-1:])[-1], flush=True)
    return found


def _milliseconds(call: grpc.UnaryUnaryMultiCallable, request: bytes) -> float:
    began = time.perf_counter()
    call(request)
    return (time.perf_counter() - began) * 1000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frontends", type=int, default=0)
    parser.add_argument("--count", type=int, default=200, help="calls of each kind")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    options = parser.parse_args(arguments)
    repository = ROOT / "build" / "benchmarks"
    make_repository(repository)
    rows = measure(repository, options.frontends, options.count)
    print("\n".join(["", *of_rows(rows)]))
    save(f"response-cache-{options.frontends}", rows, keep=options.keep)


if __name__ == "__main__":
    main()
