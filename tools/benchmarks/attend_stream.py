"""Every map of long inputs through AttendStream, beside the prediction alone: `python -m benchmarks.attend_stream`.

12 layers of 12 heads; each length on a server of its own, whose memory at most is read from the kernel. Beside streams
of the same a caller asks for health, and then for predictions of 32 tokens, one call after the other. The runtime alone
computes the same maps where they fit into memory, on every core. Two minutes.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np

from benchmarks.encoder import export_encoder
from benchmarks.encoder_sizes import VOCABULARY, EncoderConfig
from benchmarks.load import Plan, percentile, run_load
from benchmarks.process import HEALTH, ServerProcess, cores
from benchmarks.processor import cpu_seconds, machine_seconds
from benchmarks.records import ROOT, save
from benchmarks.serving.inputs import PREDICT
from benchmarks.serving.runtime_alone import gates, run_rows, session
from benchmarks.tables import of_rows
from limelight.v1 import service_pb2, service_pb2_grpc, values_pb2

NAME = "long_encoder"
CONFIG = EncoderConfig(layers=12, longest=4096)
LENGTHS = (512, 2048, 4096)
_SHORT = 32
_RUNTIME_BELOW = 3 * 2**30  # bytes of maps that the runtime alone is asked for
_SECONDS = 2.0


@dataclass(frozen=True)
class Streamed:
    """Of one length: seconds of a prediction, of a stream, and of the runtime alone that fetches every map (None where
    they are too large); the processor seconds that each took, of the server alone where it is one; peak memory of the
    server after a start, after predictions and after streams, in MiB.

    maps: bytes. health, predict: waits of other callers beside the stream, in ms; alone: without it.
    others: share of the machine that other programs took.
    """

    tokens: int
    maps: int
    predicted: float
    streamed: float
    runtime: float | None
    predicted_cpu: float
    streamed_cpu: float
    runtime_cpu: float | None
    ready_memory: float
    predicted_memory: float
    streamed_memory: float
    health_p99: float
    health_worst: float
    predict_p50: float
    predict_worst: float
    alone_p50: float
    others: float


class _Streaming:
    """Streams of one request, one after the other, for the length of a block."""

    def __init__(self, target: str, request: service_pb2.AttendStreamRequest) -> None:
        self._channel, self._request = grpc.insecure_channel(target), request
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._channel.close()

    def _run(self) -> None:
        stub = service_pb2_grpc.AttentionServiceStub(self._channel)
        while not self._over.is_set():
            stream = stub.AttendStream(self._request)
            for _ in stream:
                if self._over.is_set():
                    stream.cancel()
                    return


def _waits(target: str, method: str, message: bytes) -> list[float]:
    """Call one after the other for a while, in a process of its own; how long each took, in ms."""
    outcome = run_load(Plan(target, method, [message], _SECONDS, concurrency=1, connections=1))
    return [each * 1e3 for values in outcome.latencies.values() for each in values]


_MODEL = values_pb2.Model(name=NAME)


def _tokens(count: int) -> values_pb2.Instance:
    ids = np.random.default_rng(0).integers(1, VOCABULARY, count, dtype=np.int64)
    tensor = values_pb2.Tensor(data_type=values_pb2.DATA_TYPE_INT64, shape=ids.shape, data=ids.tobytes())
    return values_pb2.Instance(inputs={"token_ids": values_pb2.Value(tensor=tensor)})


def _peak(pids: Sequence[int]) -> float:
    """Give the most memory that processes have had, in MiB."""
    lines = (line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(repository: Path, tokens: int) -> Streamed:
    """Measure one length."""
    began, busy, own = time.perf_counter(), machine_seconds(), _own_seconds()
    with (
        ServerProcess(repository) as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        stub = service_pb2_grpc.AttentionServiceStub(channel)
        one = service_pb2.PredictRequest(model=_MODEL, instances=[_tokens(tokens)])
        ready = _peak(server.pids)
        used = cpu_seconds(server.pids)
        predicted = statistics.median(_seconds(lambda: stub.Predict(one)) for _ in range(3))
        predicted_cpu = (cpu_seconds(server.pids) - used) / 3
        predicted_memory = _peak(server.pids)
        short = service_pb2.PredictRequest(model=_MODEL, instances=[_tokens(_SHORT)]).SerializeToString()
        alone = _waits(server.target, PREDICT, short)
        request = service_pb2.AttendStreamRequest(model=_MODEL, instances=[_tokens(tokens)])
        maps, used, times = 0, cpu_seconds(server.pids), []
        for _ in range(max(1, min(3, 2048 // tokens))):
            maps, started = 0, time.perf_counter()
            for message in stub.AttendStream(request):
                maps += len(message.chunk.weights.data)
            times.append(time.perf_counter() - started)
        used = (cpu_seconds(server.pids) - used) / len(times)
        streamed_memory = _peak(server.pids)
        with _Streaming(server.target, request):
            time.sleep(predicted)
            health = _waits(server.target, HEALTH, b"")
            predict = _waits(server.target, PREDICT, short)
    took = (time.perf_counter() - began) * cores()
    others = (machine_seconds() - busy - (_own_seconds() - own)) / took  # the server is a child of this by now
    runtime, runtime_cpu = _runtime(repository, tokens) if maps < _RUNTIME_BELOW else (None, None)
    return Streamed(
        tokens=tokens,
        maps=maps,
        predicted=predicted,
        streamed=statistics.median(times),
        runtime=runtime,
        predicted_cpu=predicted_cpu,
        streamed_cpu=used,
        runtime_cpu=runtime_cpu,
        ready_memory=ready,
        predicted_memory=predicted_memory,
        streamed_memory=streamed_memory,
        health_p99=percentile(health, 0.99),
        health_worst=max(health),
        predict_p50=percentile(predict, 0.5),
        predict_worst=max(predict),
        alone_p50=percentile(alone, 0.5),
        others=max(0.0, others),
    )


def _own_seconds() -> float:
    """Give the processor time of this process and of those that it has ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _seconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _runtime(repository: Path, tokens: int) -> tuple[float, float]:
    """Have the runtime alone compute every map, in a process of its own: seconds, and processor seconds."""
    command = [sys.executable, "-m", "benchmarks.attend_stream", "--runtime", str(repository), str(tokens)]
    said = subprocess.run(command, check=True, capture_output=True, cwd=ROOT, text=True).stdout
    seconds, used = map(float, said.split())
    return seconds, used


def run_runtime(repository: Path, tokens: int) -> None:
    """Print the seconds and processor seconds of a run that fetches every map, after one that warms up."""
    graph = session(repository / NAME / "1" / "model.onnx", cores(), False)
    maps = [f"encoder.{layer}.self" for layer in range(CONFIG.layers)]
    rows = {size: np.random.default_rng(0).integers(1, VOCABULARY, size, dtype=np.int64) for size in (_SHORT, tokens)}
    run_rows(graph, [rows[_SHORT]], ["logits"], {})
    used = time.process_time()
    seconds = _seconds(lambda: run_rows(graph, [rows[tokens]], ["logits", *maps], gates(graph)))
    print(seconds, time.process_time() - used)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens")
    parser.add_argument("--keep", action="store_true", help="write the record of the repository")
    parser.add_argument("--runtime", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.runtime:
        run_runtime(Path(options.runtime[0]), int(options.runtime[1]))
        return
    repository = ROOT / "build" / "benchmarks-long"
    export_encoder(repository, NAME, CONFIG)
    rows = [measure(repository, tokens) for tokens in options.lengths]
    print("\n".join(of_rows(rows)))
    save("attend_stream", rows, keep=options.keep)


if __name__ == "__main__":
    main()
