"""Explain beside as many predictions: `python -m benchmarks.explaining`.

An encoder of MiniLM's size that takes interventions, and a text of 32 tokens: a call of Explain, by turns with one call
of as many predictions. Half a minute.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np

from benchmarks.encoder import export_encoder
from benchmarks.encoder_sizes import VOCABULARY, EncoderConfig
from benchmarks.process import ServerProcess, cores
from benchmarks.processor import cpu_seconds, machine_seconds
from benchmarks.records import ROOT, save
from benchmarks.tables import of_rows
from limelight.v1 import service_pb2, service_pb2_grpc, values_pb2

NAME = "explained_encoder"
TOKENS = 32
_WAYS: Mapping[str, tuple[service_pb2.Way, ...]] = {
    "attention": (service_pb2.WAY_ATTENTION,),
    "attention and looking away": (service_pb2.WAY_ATTENTION, service_pb2.WAY_LOOK_AWAY),
    "attention and erasing": (service_pb2.WAY_ATTENTION, service_pb2.WAY_ERASE),
}


@dataclass(frozen=True)
class Explained:
    """A call of some ways, for a text of `tokens`, and as many predictions in one call (predicted), in the median.

    rows: of it. ratio: of both. others: share of the machine that other programs took.
    """

    ways: str
    tokens: int
    rows: int
    milliseconds: float
    predicted: float
    ratio: float
    others: float


def measure(repository: Path, rounds: int) -> list[Explained]:
    """Measure every kind of call by turns."""
    began, busy = time.perf_counter(), machine_seconds()
    ids = np.random.default_rng(0).integers(1, VOCABULARY, TOKENS, dtype=np.int64)
    tensor = values_pb2.Tensor(data_type=values_pb2.DATA_TYPE_INT64, shape=ids.shape, data=ids.tobytes())
    instance = values_pb2.Instance(inputs={"token_ids": values_pb2.Value(tensor=tensor)})
    model = values_pb2.Model(name=NAME)
    with ServerProcess(repository) as server, grpc.insecure_channel(server.target) as channel:
        stub, used = service_pb2_grpc.AttentionServiceStub(channel), cpu_seconds(server.pids)
        calls: dict[str, tuple[int, Callable[[], object], Callable[[], object]]] = {}
        for name, ways in _WAYS.items():
            asked = service_pb2.ExplainRequest(model=model, instances=[instance], ways=ways)
            rows = stub.Explain(asked).explanations[0].rows
            several = service_pb2.PredictRequest(model=model, instances=[instance] * rows)
            calls[name] = rows, lambda asked=asked: stub.Explain(asked), lambda several=several: stub.Predict(several)  # type: ignore[misc]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for _ in range(rounds):
            for name, (_, explain, predict) in calls.items():
                times[name].append((_seconds(explain), _seconds(predict)))
        used = cpu_seconds(server.pids) - used
    others = (machine_seconds() - busy - used) / ((time.perf_counter() - began) * cores())
    found = []
    for name, (rows, _, _) in calls.items():
        explained, predicted = (statistics.median(each) for each in zip(*times[name], strict=True))
        found.append(Explained(name, TOKENS, rows, explained * 1e3, predicted * 1e3, explained / predicted, others))
    return found


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main() -> None:
    """Measure, print the table, and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--keep", action="store_true", help="keep the record beside the others")
    arguments = parser.parse_args()
    repository = ROOT / "build" / "benchmarks-explaining"
    export_encoder(repository, NAME, EncoderConfig(), interventions=True)
    rows = measure(repository, arguments.rounds)
    print("\n".join(of_rows(rows)))
    save("explaining", rows, keep=arguments.keep)


if __name__ == "__main__":
    main()
