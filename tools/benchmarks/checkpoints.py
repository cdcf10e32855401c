"""A sentence encoder of Hugging Face: texts a second of Limelight, of the runtime alone, and of transformers behind
FastAPI; and the time of its import.

    python -m benchmarks.checkpoints DIR             # the folder of all-MiniLM-L6-v2: three minutes
    python -m benchmarks.checkpoints DIR --keep      # writes tools/benchmarks/results/checkpoints.json.xz

The servers take turns. `row` is one row of attention with every answer: of the last layer, the first head and token.
transformers is measured with eager attention, which has weights, and with sdpa, which has none. Processor time of the
load generators is given back; the runtime alone gets tokens, and prepares no text. The server of transformers is left
out, visibly, where `make peers` has not installed it.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import httpx
import numpy as np
from tokenizers import Tokenizer

from benchmarks.demo_calls import ATTEND, PREDICT
from benchmarks.load import Plan, run_clean
from benchmarks.process import Process, ServerProcess, cores, free_port
from benchmarks.processor import resident_bytes
from benchmarks.records import ROOT, save
from benchmarks.serving.runtime_alone import run_raw, ways
from benchmarks.tables import of_rows
from limelight.cli.bench import http
from limelight.cli.bench.load import Load, Recorder, run
from limelight.cli.bench.protocols import Wires
from limelight.cli.connection import Connection
from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_export.importing.huggingface.importer import import_checkpoint
from limelight_export.importing.huggingface.tasks.task import ImportOptions

MODEL = "sentences"
CALLERS = (16, 32)
_TEXTS = 64
_WORDS = "the a cat model looks at words in its own text and answers with every weight that it gave them".split()
_FASTAPI = ROOT / "build" / "peers-fastapi"


@dataclass(frozen=True)
class Rate:
    """Texts a second of a server at a number of callers; the median of the rounds. memory: MiB of its processes."""

    server: str
    callers: int
    rate: float
    memory: float


def texts() -> list[str]:
    """Texts of 5 to 40 words."""
    chance = random.Random(1)
    return [" ".join(chance.choices(_WORDS, k=chance.randint(5, 40))) for _ in range(_TEXTS)]


def requests(kind: str) -> list[bytes]:
    """Serialised requests of a kind: `predict`, or `row`."""
    instances = [values_pb2.Instance(inputs={"text": values_pb2.Value(text=each)}) for each in texts()]
    model = values_pb2.Model(name=MODEL)
    if kind == "predict":
        return [service_pb2.PredictRequest(model=model, instances=[each]).SerializeToString() for each in instances]
    selection = attention_pb2.MapSelection(layers=[-1], heads=[0], queries=[0])
    options = attention_pb2.AttentionOptions(selections=[selection])
    return [
        service_pb2.AttendRequest(model=model, instances=[each], attention=options).SerializeToString()
        for each in instances
    ]


async def _http(target: str, callers: int, seconds: float) -> float:
    """Give the answers a second of a closed loop over HTTP, with the processor time of this process given back."""
    record = Recorder()
    async with http.Caller(httpx, Connection(target, 60.0, {}), Wires(callers, 1, 60.0)) as caller:
        posts = [caller.request("POST", "/embed", json.dumps({"text": each}).encode()) for each in texts()]
        await run(caller.sender(posts), Load(callers, seconds=seconds), record)
    if record.first_error:
        raise RuntimeError(record.first_error)
    return len(record.ends) / (record.seconds - record.processor_seconds / cores())


def fastapi(folder: Path, attention: str) -> Process:
    """Start transformers behind FastAPI."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "benchmarks.peers.transformers_app:app", "--port", str(port)]

    def is_ready(_: grpc.Channel) -> bool:
        try:
            return asyncio.run(_http(f"http://127.0.0.1:{port}/embed", 1, 0.2)) > 0
        except OSError:
            return False

    path = os.pathsep.join([str(_FASTAPI), *sys.path])
    environment = {"DIR": str(folder.resolve()), "ATTENTION": attention, "PYTHONPATH": path}
    return Process(
        [*command, "--workers", str(cores()), "--log-level", "warning"],
        f"127.0.0.1:{port}",
        is_ready,
        environment=environment,
    )


def measure(folder: Path, seconds: float, again: int) -> list[Rate]:
    """Import the checkpoint, and measure every server by turns."""
    found: dict[tuple[str, int], list[float]] = {}
    memory: dict[str, float] = {}
    with TemporaryDirectory() as scratch, ExitStack() as stack:
        begin = time.perf_counter(), time.process_time()
        bundle = import_checkpoint(folder, Path(scratch), options=ImportOptions(name=MODEL))
        took = time.perf_counter() - begin[0], time.process_time() - begin[1]
        print(f"import: {took[0]:.0f} s, {took[1]:.0f} s of a core", flush=True)
        server = stack.enter_context(ServerProcess(Path(scratch)))
        sides: dict[str, Callable[[int], float]] = {
            "Limelight": partial(_limelight, server, PREDICT, requests("predict"), seconds),
            "Limelight, row": partial(_limelight, server, ATTEND, requests("row"), seconds),
            "runtime alone": partial(_runtime, bundle.path / bundle.bundle.graphs[0].file, folder, seconds),
        }
        pids: Mapping[str, Sequence[int]] = {"Limelight": server.pids, "Limelight, row": server.pids}
        if _FASTAPI.is_dir():
            for attention in ("sdpa", "eager"):
                peer = stack.enter_context(fastapi(folder, attention))
                name = f"FastAPI, {attention}"
                sides[name] = partial(_over_http, peer.target, seconds)
                pids = {**pids, name: peer.pids}
        else:
            print("FastAPI is left out: `make peers` installs it")
        for _ in range(again):
            for callers in CALLERS:
                for name, run in sides.items():
                    found.setdefault((name, callers), []).append(run(callers))
        memory = {name: resident_bytes(each) / 2**20 for name, each in pids.items()}
    nothing = float("nan")
    return [
        Rate(name, callers, statistics.median(rates), memory.get(name, nothing))
        for (name, callers), rates in found.items()
    ]


def _limelight(server: ServerProcess, method: str, messages: Sequence[bytes], seconds: float, callers: int) -> float:
    plan = Plan(server.target, method, messages, seconds, concurrency=callers, pids=server.pids)
    return run_clean(plan).rate_without_generator(cores())


def _over_http(target: str, seconds: float, callers: int) -> float:
    return asyncio.run(_http(target, callers, seconds))


def _runtime(graph: Path, folder: Path, seconds: float, callers: int) -> float:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    rows = [np.array(tokenizer.encode(each).ids) for each in texts()]
    possible = [each for each in ways() if each.callers <= callers]
    rates = [run_raw(graph, rows, each, seconds / 2, outputs=["vector"]).rate for each in possible]
    return max(rates)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the checkpoint")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--again", type=int, default=3, help="rounds")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    arguments = parser.parse_args()
    rates = measure(arguments.folder, arguments.seconds, arguments.again)
    print("\n".join(of_rows(rates)))
    save("checkpoints", rates, keep=arguments.keep, settings={"seconds": arguments.seconds, "again": arguments.again})


if __name__ == "__main__":
    main()
