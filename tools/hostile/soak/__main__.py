"""Loads and attacks a server for a given time, and reports growth, failures and memory.

    python -m hostile.soak --seconds 300
    python -m hostile.soak --seconds 3600 --keep     # writes tools/hostile/records/soak.json.xz
    python -m hostile.soak --seconds 7200 --keep --resume

In rounds of half a minute: half of the calls are good ones to every model, the others what the fuzzer makes; beside
them uploads that never end, answers that nobody reads, doors left open, and models swapped for their other version.
Between rounds the server comes to rest: then memory, descriptors, threads and gauges are looked at, and some of the
good calls are asked again, alone. After so many rounds it is stopped and another one started.
"""

import argparse
import signal
import tempfile
import time
from pathlib import Path

from benchmarks.records import ROOT, origin, place
from hostile.fuzz.repository import write_repository
from hostile.page import RECORDS, lines
from hostile.soak.record import Soak
from hostile.soak.rounds import one_round, soaked_server

_STOP_SECONDS = 60.0
_SHORTEST = 5.0  # seconds of a round that tells anything


def soak(found: Soak, file: Path, seconds: float, round_seconds: float, rounds_a_life: int) -> None:
    """Run rounds until so many seconds are in them all."""
    folder = ROOT / "build" / "soak"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        repository = write_repository(Path(temporary), versions=2)
        while seconds - found.seconds >= _SHORTEST:
            life = found.lives + 1
            with soaked_server(repository, folder / f"server-{life}.log") as (server, metrics_port):
                for _ in range(rounds_a_life):
                    left = min(round_seconds, seconds - found.seconds)
                    if left < _SHORTEST:
                        break
                    found.rounds.append(one_round(server, metrics_port, found, life, left, folder))
                    found.save(file)
                    print(lines(found)[-1], flush=True)
                server.signal(signal.SIGTERM)
                end = time.monotonic() + _STOP_SECONDS
                while server.status is None and time.monotonic() < end:
                    time.sleep(0.05)
                found.stops.append(server.status)
            found.save(file)


def main() -> None:
    """Run the soak."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="under load, those before --resume included")
    parser.add_argument("--round", type=float, default=30.0, help="seconds of a round")
    parser.add_argument("--rounds-a-life", type=int, default=40, help="rounds until the server is stopped")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was cut short")
    options = parser.parse_args()
    file = place("soak", keep=options.keep, folder=RECORDS)
    found = Soak.load(file) if options.resume and file.exists() else Soak(**origin())
    soak(found, file, options.seconds, options.round, options.rounds_a_life)
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
