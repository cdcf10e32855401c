"""Stage `triton`: Triton's core with its python backend on the same GPU, by turns with the server."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from benchmarks.gpu.models import PACKED, PADDED
from benchmarks.gpu.setup import Setup, load, start
from benchmarks.gpu.throughput import graph, messages
from benchmarks.peers import kserve, triton
from benchmarks.serving.inputs import ALL_MAPS, LENGTHS, PREDICT_IT, infer_requests, rows_of

_CALLERS = (8, 32, 128)
_INSTANCES, _DELAYS = (1, 2), (0, 2)
_MODELS = (PADDED, PACKED)


@dataclass(frozen=True)
class Beside:
    """Answers a second. server: Limelight, and its model; or Triton, its instances and its delay. Times in ms."""

    server: str
    call: str
    lengths: str
    callers: int
    rate: float
    p50: float
    p99: float


def run(setup: Setup) -> Iterator[Beside]:
    """Measure Predict at each length, and all maps at 128 tokens."""
    if triton.missing():
        print(f"Triton is left out: {triton.missing()}", flush=True)
        return
    tunings = [triton.Tuning(instances, delay) for instances in _INSTANCES for delay in _DELAYS]
    file = graph(setup.encoders / PADDED)
    with ExitStack() as stack:
        peers = {each: triton.Triton("encoder", file, each, setup.provider) for each in tunings}
        ours = setup.server("triton-limelight", setup.encoders, "--frontends", "8")
        start(stack, [ours, *peers.values()])
        loads = [(PREDICT_IT, lengths, callers) for lengths in LENGTHS for callers in _CALLERS]
        for kind, lengths, callers in [*loads, (ALL_MAPS, "128", 32)]:
            requests = infer_requests(rows_of(lengths), maps=kind is ALL_MAPS)
            for tuning, peer in peers.items():
                found = load(peer, kserve.INFER, requests, callers, setup.seconds)
                yield Beside(f"Triton, {tuning}", kind.name, lengths, callers, found.rate, found.p50, found.p99)
            for model in _MODELS:
                mine = replace(kind, model=model)
                found = load(ours, mine.method, messages(mine, lengths), callers, setup.seconds)
                yield Beside(f"Limelight, {model}", kind.name, lengths, callers, found.rate, found.p50, found.p99)
