"""What a model costs that is only there: `limelight serve` with one model and with many, side by side.

    python -m benchmarks.many_models [--models 300]

The many are the demo model of documents under other names. Times are medians, of calls that take turns between the two
servers; the caller runs on the same cores.
"""

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import limelight
from bundle.names import BUNDLE_FILE
from service.machine import available_cores

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "deploy" / "demo" / "slips" / "1"
DOCUMENT = "def mean(numbers):\n    return sum(numbers) / len(numbers)\n"
ROUNDS = 5


@dataclass
class Server:
    """A running server, what it took to start it, and where it is asked."""

    pid: int
    client: limelight.Client
    metrics: str
    models: list[str]
    seconds: float

    def status(self, name: str) -> int:
        """A figure of the process: its memory in KiB, or its threads."""
        found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        assert found
        return int(found[1])

    def processor_seconds(self) -> float:
        """Processor time that the server has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def page(self) -> bytes:
        """The page of metrics."""
        data: bytes = urllib.request.urlopen(self.metrics, timeout=30).read()
        return data


def copies(repository: Path, count: int) -> list[str]:
    """Put the model there under so many names; its files are linked, not copied."""
    names = [f"model-{number:03d}" for number in range(count)]
    for name in names:
        folder = repository / name / "1"
        folder.mkdir(parents=True)
        for file in SOURCE.iterdir():
            if file.name != BUNDLE_FILE:
                os.link(file, folder / file.name)
        content = json.loads((SOURCE / BUNDLE_FILE).read_text(encoding="utf-8"))
        content["description"]["name"] = name
        (folder / BUNDLE_FILE).write_text(json.dumps(content), encoding="utf-8")
    return names


def started(stack: ExitStack, repository: Path, count: int) -> Server:
    """Start a server of so many models."""
    models = copies(repository, count)
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        metrics = trial.getsockname()[1]
    command = [sys.executable, "-m", "limelight.cli", "serve", "--repository", str(repository), "--provider", "cpu"]
    command += ["--port", "0", "--metrics-port", str(metrics), "--log-level", "warning"]
    before = time.perf_counter()
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.terminate)
    assert process.stdout is not None
    found = re.search(r"serving on (\S+), metrics on (\S+)", process.stdout.readline())
    seconds = time.perf_counter() - before
    assert found, "the server did not start"
    return Server(process.pid, stack.enter_context(limelight.Client(found[1])), found[2], models, seconds)


def by_turns(servers: list[Server], call: Callable[[Server], object], calls: int) -> tuple[list[float], list[float]]:
    """Milliseconds of a call of each server, the median; and of the server's processor time, the mean."""
    took: list[list[float]] = [[] for _ in servers]
    processor = [0.0 for _ in servers]
    for _ in range(ROUNDS):
        for number, server in enumerate(servers):
            begun = server.processor_seconds()
            for _ in range(calls):
                before = time.perf_counter()
                call(server)
                took[number].append(1e3 * (time.perf_counter() - before))
            processor[number] += server.processor_seconds() - begun
    return [statistics.median(times) for times in took], [1e3 * each / (ROUNDS * calls) for each in processor]


def first_calls(server: Server) -> float:
    """Milliseconds of the first call of a model, the median over all."""
    took = []
    for name in server.models:
        before = time.perf_counter()
        server.client.predict(name, {"document": DOCUMENT})
        took.append(1e3 * (time.perf_counter() - before))
    return statistics.median(took)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=300)
    count = parser.parse_args().models
    with ExitStack() as stack:
        (ROOT / "build").mkdir(exist_ok=True)  # on the disk of the model's files, which are linked
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=ROOT / "build")))
        servers = [started(stack, folder / str(number), number) for number in (1, count)]
        memory = [server.status("VmRSS") / 1024 for server in servers]
        threads = [float(server.status("Threads")) for server in servers]
        first = [first_calls(server) for server in servers]
        predict = by_turns(servers, lambda each: each.client.predict("model-000", {"document": DOCUMENT}), 100)
        listing = by_turns(servers, lambda each: each.client.models(), 50)
        page = by_turns(servers, Server.page, 8)
        rows = (
            ("start, s", ".1f", [server.seconds for server in servers]),
            ("resident, MiB", ".0f", memory),
            ("one model more, MiB", ".2f", [0.0, (memory[1] - memory[0]) / (count - 1)]),
            ("threads", ".0f", threads),
            ("first Predict of a model, ms", ".2f", first),
            ("Predict, ms", ".2f", predict[0]),
            ("Predict, the server's processor ms", ".2f", predict[1]),
            ("ListModels, ms", ".2f", listing[0]),
            ("/metrics, every model asked, ms", ".1f", page[0]),
            ("/metrics, the server's processor ms", ".1f", page[1]),
        )
        print(
            f"{available_cores()} cores, load {os.getloadavg()[0]:.1f}\n\n| | 1 model | {count} models |\n|---|---|---|"
        )
        for name, form, (one, many) in rows:
            print(f"| {name} | {one:{form}} | {many:{form}} |")


if __name__ == "__main__":
    main()
