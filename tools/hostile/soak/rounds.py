"""Rounds of a soak: half good and half hostile callers, attacks and swaps beside them, and what is left afterwards."""

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

from benchmarks.load import percentile
from benchmarks.process import Process, cores, free_port, healthy
from benchmarks.processor import cpu_seconds, family, machine_seconds
from hostile.fuzz.findings import Findings
from hostile.fuzz.run import GIVES_BACK_SECONDS, Attack, Report
from hostile.soak.attacks import one_after_another
from hostile.soak.record import Round, Soak

_SWAP_SECONDS = 4.0
_GOLDEN_EVERY = 2
_MOST_CHECKED = 200
_WIDTH = 8  # calls at a time: what two cores can do without being short of time all the while


@contextmanager
def soaked_server(repository: Path, log: Path) -> Iterator[tuple[Process, int]]:
    """Run the server that swaps models; gives it and the port of its metrics."""
    port, metrics_port = free_port(), free_port()
    environment = {
        "LIMELIGHT_REPOSITORY": str(repository),
        "LIMELIGHT_PORT": str(port),
        "LIMELIGHT_METRICS_PORT": str(metrics_port),
        "LIMELIGHT_LOG_LEVEL": "error",
    }
    command = [sys.executable, "-m", "hostile.soak.server"]

    def announced(channel: grpc.Channel) -> bool:
        """Tell whether every frontend answers: one is healthy before the server takes signals."""
        return "serving on" in log.read_text() and healthy(channel)

    with Process(command, f"127.0.0.1:{port}", announced, environment=environment, log=log) as server:
        yield server, metrics_port


def one_round(server: Process, metrics_port: int, soak: Soak, life: int, seconds: float, folder: Path) -> Round:
    """Load and attack a server for so long, and let it come to rest."""
    number = len(soak.rounds)
    report = Report(seed=1000 + number)
    attack = Attack(
        server,
        metrics_port,
        report,
        Findings(folder / "findings"),
        width=_WIDTH,
        golden_every=_GOLDEN_EVERY,
        most_checked=_MOST_CHECKED,
        settles=GIVES_BACK_SECONDS,
    )
    until = time.monotonic() + seconds
    attacks: Counter[str] = Counter()
    swaps: list[float] = []
    chance = random.Random(number)
    beside = [
        threading.Thread(target=lambda: attacks.update(one_after_another(server.target, until, chance))),
        threading.Thread(target=_swap, args=(server, until, swaps)),
    ]
    began, ours, busy = time.monotonic(), cpu_seconds(_own(server)), machine_seconds()
    for each in beside:
        each.start()
    try:
        attack.round(10**9, until)
    finally:
        for each in beside:
            each.join()
        attack.close()
    wall = time.monotonic() - began
    others = machine_seconds() - busy - (cpu_seconds(_own(server)) - ours)
    probes = [each * 1e3 for each in report.health]
    return Round(
        life=life,
        seconds=round(report.seconds, 1),
        calls=report.calls,
        failures=report.failures,
        good=report.golden,
        attacks=dict(attacks),
        swaps=len(swaps),
        memory=report.memory[-1],
        descriptors=sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in server.pids),
        threads=sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in server.pids),
        left=report.gauges_left,
        health_p50=round(percentile(probes, 0.5), 2),
        health_p99=round(percentile(probes, 0.99), 2),
        health_worst=round(max(probes, default=float("nan")), 1),
        others=round(max(0.0, others) / (wall * cores()), 3),
    )


def _own(server: Process) -> list[int]:
    """The processes of the soak: this one, and below it the server's."""
    return list({*server.pids, *family(os.getpid())})


def _swap(server: Process, until: float, swaps: list[float]) -> None:
    while time.monotonic() + _SWAP_SECONDS < until:
        time.sleep(_SWAP_SECONDS)
        server.signal(signal.SIGUSR1)
        swaps.append(time.monotonic())
