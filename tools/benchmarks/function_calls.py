"""Function calls of a request on the server's event loop, which unlike times have no noise.

    python -m benchmarks.function_calls  # one text by gRPC's Predict, and by POST /v1/embeddings; half a minute

The server runs in one process under cProfile, which sees the thread of the event loop alone.
"""

import http.client
import json
import marshal
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc

from benchmarks.process import Process, free_port, healthy
from benchmarks.sentences import NAME, imported, texts
from limelight.v1 import service_pb2, service_pb2_grpc, values_pb2

_CALLERS, _REQUESTS = 8, 400
_WRAP = """
import cProfile, marshal, os, signal, sys
profile, count, place = cProfile.Profile(), 0, sys.argv[1]
def dump(*_):
    global count
    profile.disable()
    profile.create_stats()
    with open(f"{place}.part", "wb") as file:
        marshal.dump(profile.stats, file)
    os.rename(f"{place}.part", f"{place}.{count}")
    count += 1
    profile.enable()
signal.signal(signal.SIGUSR1, dump)
from limelight.cli import main
sys.argv = ["limelight", *sys.argv[2:]]
profile.enable()
main()
"""


def _by_grpc(target: str) -> Callable[[str], None]:
    channel = grpc.insecure_channel(target)
    stub, model = service_pb2_grpc.AttentionServiceStub(channel), values_pb2.Model(name=NAME)

    def ask(text: str) -> None:
        instance = values_pb2.Instance(inputs={"text": values_pb2.Value(text=text)})
        stub.Predict(service_pb2.PredictRequest(model=model, instances=[instance]))

    return ask


def _by_http(target: str, path: str, body: Callable[[str], Any]) -> Callable[[str], None]:
    connection = http.client.HTTPConnection(target)

    def ask(text: str) -> None:
        connection.request("POST", path, json.dumps(body(text)), {"content-type": "application/json"})
        answer = connection.getresponse()
        if answer.read() and answer.status != 200:
            raise RuntimeError(f"{path} answers with status {answer.status}")

    return ask


def count(layers: int) -> Mapping[str, Counter[str]]:
    """Give calls a request by file, of each way to ask."""
    _, repository = imported(layers)
    found: dict[str, Counter[str]] = {}
    with TemporaryDirectory() as scratch:
        port, stats = free_port(), Path(scratch) / "stats"
        (Path(scratch) / "wrap.py").write_text(_WRAP)
        wrapped = [sys.executable, f"{scratch}/wrap.py", str(stats), "serve", "--repository", str(repository)]
        grpc_port = free_port()
        settings = ["--port", str(grpc_port), "--http-port", str(port), "--metrics-port", "0", "--log-level", "warning"]
        at, target = f"127.0.0.1:{port}", f"127.0.0.1:{grpc_port}"
        ways: dict[str, Callable[[], Callable[[str], None]]] = {
            "Predict by gRPC": lambda: _by_grpc(target),
            "/v1/embeddings": lambda: _by_http(at, "/v1/embeddings", lambda text: {"model": NAME, "input": text}),
            "Predict by HTTP": lambda: _by_http(at, f"/v1/models/{NAME}:predict", lambda text: {"instances": [text]}),
        }
        with Process([*wrapped, *settings], target, healthy) as process:
            for place, (name, way) in enumerate(ways.items()):
                _ask(way, _CALLERS * 5)
                before = _stats(process, stats, 2 * place)
                _ask(way, _REQUESTS)
                after = _stats(process, stats, 2 * place + 1)
                calls: Counter[str] = Counter()
                for (file, _, _), value in after.items():
                    calls[str(file)] += value[1]
                for (file, _, _), value in before.items():
                    calls[str(file)] -= value[1]
                found[name] = Counter({file: each / _REQUESTS for file, each in calls.items()})  # type: ignore[misc]
    return found


def _ask(way: Callable[[], Callable[[str], None]], requests: int) -> None:
    def caller(_: int) -> None:
        ask = way()
        for text in texts(requests // _CALLERS):
            ask(text)

    with ThreadPoolExecutor(_CALLERS) as pool:
        list(pool.map(caller, range(_CALLERS)))


def _stats(process: Process, stats: Path, number: int) -> Mapping[tuple[str, int, str], tuple[int, ...]]:
    process.signal(signal.SIGUSR1)
    file = stats.with_name(f"{stats.name}.{number}")
    while not file.exists():
        time.sleep(0.05)
    return marshal.loads(file.read_bytes())  # type: ignore[no-any-return]  # its own server's


def main() -> None:
    """Count, and print the files that make most calls."""
    found = count(layers=1)
    first = sum(next(iter(found.values())).values())
    for name, calls in found.items():
        print(f"{name}: {sum(calls.values()):.0f} function calls, {sum(calls.values()) / first:.2f} times Predict's")
        for file, each in calls.most_common(20 if "-v" in sys.argv else 0):
            print(f"{each:8.1f} {file.split('/site-packages/')[-1].replace(os.getcwd() + '/', '')}")


if __name__ == "__main__":
    main()
