"""Embeddings by OpenAI's API: texts a second of Limelight, of transformers behind FastAPI, and of Infinity.

    python -m benchmarks.doors         # a minute and a half
    python -m benchmarks.doors --keep  # writes tools/benchmarks/results/doors.json.xz

An encoder of MiniLM's shape with random weights gets texts of 20 words, one a request, from 16 callers over HTTP. The
servers take turns, and processor time of the load generator is given back. transformers runs with sdpa, in one process
with all cores or in a process a core. A server that `make peers` has not installed is left out, visibly.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import httpx

from benchmarks.process import Process, ServerProcess, cores, free_port
from benchmarks.processor import cpu_seconds, machine_seconds, resident_bytes
from benchmarks.records import ROOT, save
from benchmarks.sentences import NAME, imported, texts
from benchmarks.tables import of_rows
from limelight.cli.bench import http
from limelight.cli.bench.load import Load, Recorder, run
from limelight.cli.bench.protocols import Wires
from limelight.cli.connection import Connection

CALLERS, WORDS, _TEXTS = 16, 20, 64
_FASTAPI, _INFINITY = ROOT / "build" / "peers-fastapi", ROOT / "build" / "peers-infinity" / "bin" / "infinity_emb"


@dataclass(frozen=True)
class Rate:
    """Texts a second of a server, the median of the rounds. ratio: Limelight's to it, in the same rounds. cpu: ms of
    processor time a text. memory: MiB of its processes. others: share of the machine that other programs took.
    """

    server: str
    rate: float
    ratio: float
    cpu: float
    memory: float
    others: float


@dataclass(frozen=True)
class _Side:
    process: Process
    target: str
    path: str
    body: Callable[[str], Any]

    async def load(self, seconds: float, callers: int = CALLERS) -> tuple[float, int]:
        """Give the answers a second of a closed loop, the generator's processor time given back, and the answers."""
        record = Recorder()
        async with http.Caller(httpx, Connection(self.target, 60.0, {}), Wires(callers, 1, 60.0)) as caller:
            posts = [caller.request("POST", self.path, json.dumps(self.body(each)).encode()) for each in _texts()]
            await run(caller.sender(posts), Load(callers, seconds=seconds), record)
        if record.first_error:
            raise RuntimeError(record.first_error)
        return len(record.ends) / (record.seconds - record.processor_seconds / cores()), len(record.ends)


def _texts() -> list[str]:
    return texts(_TEXTS, WORDS)


def _embeddings(text: str) -> Any:
    return {"model": NAME, "input": text}


def _answers(target: str, path: str, body: Callable[[str], Any], _: grpc.Channel) -> bool:
    """Tell whether a server without gRPC answers yet."""
    try:
        return httpx.post(f"http://{target}{path}", json=body("a"), timeout=5.0).status_code == 200
    except httpx.TransportError:
        return False


def _peer(command: list[str], path: str, body: Callable[[str], Any], environment: Mapping[str, str]) -> _Side:
    port = free_port()
    target = f"127.0.0.1:{port}"
    ready = partial(_answers, target, path, body)
    process = Process([*command, "--port", str(port)], target, ready, environment=environment)
    return _Side(process, target, path, body)


def fastapi(folder: Path, workers: int) -> _Side:
    """Make a side of transformers behind FastAPI; the cores are shared among its processes."""
    command = [sys.executable, "-m", "uvicorn", "benchmarks.peers.transformers_app:app", "--workers", str(workers)]
    path = os.pathsep.join([str(_FASTAPI), *sys.path])
    threads = str(max(1, cores() // workers))
    environment = {"DIR": str(folder.resolve()), "ATTENTION": "sdpa", "PYTHONPATH": path, "THREADS": threads}
    return _peer([*command, "--log-level", "warning"], "/embed", lambda text: {"text": text}, environment)


def sides() -> dict[str, _Side]:
    """Make every server that there is."""
    folder, repository = imported()
    port = free_port()
    own = ServerProcess(repository, "--http-port", str(port))
    found = {"Limelight": _Side(own, f"127.0.0.1:{port}", "/v1/embeddings", _embeddings)}
    if _FASTAPI.is_dir():
        found["FastAPI and transformers, one process"] = fastapi(folder, 1)
        found["FastAPI and transformers, a process a core"] = fastapi(folder, cores())
    if _INFINITY.exists():
        command = [str(_INFINITY), "v2", "--model-id", str(folder), "--served-model-name", NAME, "--device", "cpu"]
        command += ["--host", "127.0.0.1", "--no-model-warmup"]
        environment = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
        found["Infinity"] = _peer(command, "/embeddings", _embeddings, environment)
    for name, place in (("FastAPI", _FASTAPI), ("Infinity", _INFINITY)):
        if not place.exists():
            print(f"{name} is left out: `make peers` installs it")
    return found


def measure(seconds: float, again: int) -> list[Rate]:
    """Measure every server by turns."""
    rates: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    began, busy, used = time.perf_counter(), machine_seconds(), 0.0
    with ExitStack() as stack:
        found = sides()
        for each in found.values():
            stack.enter_context(each.process)
        for each in found.values():
            asyncio.run(each.load(seconds / 2))
        began, busy, own = time.perf_counter(), machine_seconds(), time.process_time()
        for _ in range(again):
            for name, each in found.items():
                before = cpu_seconds(each.process.pids)
                rate, answers = asyncio.run(each.load(seconds))
                took = cpu_seconds(each.process.pids) - before
                rates.setdefault(name, []).append(rate)
                spent.setdefault(name, []).append(took / answers * 1e3)
                used += took
        used += time.process_time() - own
        memory = {name: resident_bytes(each.process.pids) / 2**20 for name, each in found.items()}
        others = max(0.0, machine_seconds() - busy - used) / ((time.perf_counter() - began) * cores())
    first = rates["Limelight"]
    return [
        Rate(
            name,
            statistics.median(each),
            statistics.median(own / other for own, other in zip(first, each, strict=True)),
            statistics.median(spent[name]),
            memory[name],
            others,
        )
        for name, each in rates.items()
    ]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--again", type=int, default=5, help="rounds")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    arguments = parser.parse_args()
    rates = measure(arguments.seconds, arguments.again)
    print("\n".join(of_rows(rates)))
    save("doors", rates, keep=arguments.keep, settings={"seconds": arguments.seconds, "again": arguments.again})


if __name__ == "__main__":
    main()
