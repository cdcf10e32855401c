"""Stages `predict`, `kinds` and `precision`: answers a second, beside the runtime alone."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.gpu.models import BASE, FLOAT16, HALVES, PACKED, PADDED
from benchmarks.gpu.setup import Load, Setup, load, start
from benchmarks.process import Process
from benchmarks.serving.inputs import ALL_MAPS, LENGTHS, ONE_ROW, PREDICT_IT, CallKind, rows_of
from benchmarks.serving.inputs import FLOAT16 as HALF_MAPS
from benchmarks.serving.runtime_alone import Way, run_raw
from limelight.v1 import service_pb2

RUNTIME = "runtime"
FRONTENDS = (1, 2, 4, 8)
CALLERS = (1, 8, 32, 128, 512)
_MANY = (32, 128, 512)
_ROWS_A_CALL = 16
# Batches of so many rows, by as many threads as pay: one computes while the other's rows are stacked.
_WAYS = (Way(1, 1, 64, 128), Way(2, 1, 64, 128), Way(2, 1, 128, 512))
_WAYS_OF_MAPS = (Way(1, 1, 16, 16), Way(2, 1, 16, 32))


@dataclass(frozen=True)
class Served:
    """A closed loop. rate: rows a second; times in ms, of a call; cpu: ms of all processes of the server a call.

    server: the runtime alone, or the number of frontends. rows: of a call.
    """

    model: str
    server: str
    call: str
    lengths: str
    callers: int
    rows: int
    rate: float
    p50: float
    p99: float
    cpu: float


def predict(setup: Setup) -> Iterator[Served]:
    """Give Predict at 128 tokens, by the number of frontends and callers."""
    with ExitStack() as stack:
        servers = _servers(setup, stack, setup.encoders, FRONTENDS)
        for model in (BASE, PADDED):
            yield from _alone(setup, setup.encoders / model, "128")
            for count, server in servers.items():
                for callers in CALLERS if model == PADDED else (_MANY if count == FRONTENDS[-1] else (128,)):
                    yield _served(setup, server, count, replace(PREDICT_IT, model=model), "128", callers)


def kinds(setup: Setup) -> Iterator[Served]:
    """Give other lengths, one row, all maps and calls of many rows, through the most frontends."""
    with ExitStack() as stack:
        ((count, server),) = _servers(setup, stack, setup.encoders, FRONTENDS[-1:]).items()
        yield from _alone(setup, setup.encoders / PADDED, "128", maps=True)
        for kind in (PREDICT_IT, ONE_ROW, ALL_MAPS, HALF_MAPS):
            for callers in (8, 32, 128):
                yield _served(setup, server, count, replace(kind, model=PADDED), "128", callers)
        for lengths in LENGTHS:
            for model in (PADDED, PACKED, BASE):
                if lengths != "128" or model == PACKED:
                    yield from _alone(setup, setup.encoders / model, lengths)
                    for callers in _MANY:
                        yield _served(setup, server, count, replace(PREDICT_IT, model=model), lengths, callers)
        for model in (PADDED, BASE):
            for callers in (8, 32):
                yield _served(setup, server, count, replace(PREDICT_IT, model=model), "128", callers, rows=_ROWS_A_CALL)


def precision(setup: Setup) -> Iterator[Served]:
    """Give float16 as `predict` gives float32."""
    with ExitStack() as stack:
        halves = setup.models / HALVES
        ((count, server),) = _servers(setup, stack, halves, FRONTENDS[-1:]).items()
        for model in (BASE + FLOAT16, PADDED + FLOAT16):
            for lengths in LENGTHS:
                yield from _alone(setup, halves / model, lengths)
                for callers in _MANY if lengths == "128" else (128,):
                    yield _served(setup, server, count, replace(PREDICT_IT, model=model), lengths, callers)
            yield _served(setup, server, count, replace(PREDICT_IT, model=model), "128", 32, rows=_ROWS_A_CALL)


def _servers(setup: Setup, stack: ExitStack, models: Path, counts: Sequence[int]) -> Mapping[int, Process]:
    servers = {
        count: setup.server(f"{models.name}-frontends-{count}", models, "--frontends", str(count)) for count in counts
    }
    start(stack, list(servers.values()))
    return servers


def messages(kind: CallKind, lengths: str, rows: int = 1) -> list[bytes]:
    """Give requests of so many rows each."""
    single = [kind.serialise(row) for row in rows_of(lengths)]
    if rows == 1:
        return single
    read = [service_pb2.PredictRequest.FromString(each) for each in single]
    return [
        service_pb2.PredictRequest(
            model=read[0].model, instances=[each.instances[0] for each in read[place : place + rows]]
        ).SerializeToString()
        for place in range(0, len(read) - rows + 1, rows)
    ]


def _served(
    setup: Setup, server: Process, count: int, kind: CallKind, lengths: str, callers: int, *, rows: int = 1
) -> Served:
    found: Load = load(server, kind.method, messages(kind, lengths, rows), callers, setup.seconds)
    return Served(
        kind.model, str(count), kind.name, lengths, callers, rows, found.rate * rows, found.p50, found.p99, found.cpu
    )


def _alone(setup: Setup, model: Path, lengths: str, *, maps: bool = False) -> Iterator[Served]:
    """Measure the runtime in each way."""
    for way in _WAYS_OF_MAPS if maps else _WAYS:
        ran = run_raw(
            graph(model),
            rows_of(lengths),
            replace(way, provider=setup.provider),
            setup.seconds,
            maps=maps,
        )
        name = (ALL_MAPS if maps else PREDICT_IT).name
        batch = f"{RUNTIME}, {way.workers} × {way.batch}"
        yield Served(model.name, batch, name, lengths, way.callers, 1, ran.rate, ran.p50 * 1e3, 0.0, ran.cpu * 1e3)


def graph(model: Path) -> Path:
    """Give the graph of a model's first version."""
    return model / "1" / "model.onnx"
