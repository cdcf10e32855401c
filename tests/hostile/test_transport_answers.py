"""Callers who ask and do not read: what waits for them is counted, and does not wait for ever."""

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from tests.hostile.capped import CAP, Capped, capped, health_of
from tests.hostile.wire import HEALTH, SERVICE, Wire, prefix
from tests.kit import bundles
from tests.kit.serving import attend, eventually, generate, predict, text

LONGEST = " ".join(["cat"] * 30)
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


@pytest.fixture(scope="module")
def impatient(repository: Path, frontends: int) -> Iterator[Capped]:
    with capped(repository, frontends=frontends, limits={"answer_seconds": 1}) as running:
        yield running


def ask(wire: Wire, path: str, request: bytes) -> int:
    """Send a request; gives its stream."""
    stream = wire.begin(path)
    assert wire.put_all(stream, prefix(len(request)) + request, end=True)
    return stream


def refused(server: Capped, request: service_pb2.AttendRequest) -> bool:
    """True where an honest call is refused for what others hold."""
    try:
        server.stub.Attend(request, timeout=60)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error  # type: ignore[attr-defined]
        return True
    return False


ENDLESS = generate("endless", text("the cat"))


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        (f"{SERVICE}Attend", attend("tiny", *[text(LONGEST)] * 64)),
        (f"{SERVICE}Generate", ENDLESS),
        (f"{SERVICE}GetModel", service_pb2.GetModelRequest(model=values_pb2.Model(name="tiny"))),
        (HEALTH, service_pb2.ListModelsRequest()),
        (REFLECTION, service_pb2.GetModelRequest(model=values_pb2.Model(name="x"))),
    ],
    ids=["attend", "generate", "get-model", "health", "reflection"],
)
def test_who_does_not_read_is_hung_up_on_and_others_are_not(impatient: Capped, path: str, request_: object) -> None:
    wire, reader = Wire(impatient.address, windows=0), Wire(impatient.address)
    ask(wire, path, request_.SerializeToString())  # type: ignore[attr-defined]

    def gone() -> bool:
        wire.pump(0.05)
        reader.pump(0)
        return wire.gone

    assert eventually(gone, 30)
    stream = ask(reader, f"{SERVICE}Predict", predict("tiny", text("cat")).SerializeToString())
    assert reader.wait(stream) == 0 and not reader.gone
    for each in (wire, reader):
        each.close()


def test_what_waits_for_its_reader_is_counted_until_the_reader_is_gone(repository: Path, frontends: int) -> None:
    large = attend("tiny", *[text(LONGEST)] * 64)  # about a megabyte is the answer
    limits = {"max_held_bytes": 2_000_000, "answer_seconds": 3}
    with capped(repository, frontends=frontends, limits=limits) as server:
        assert not refused(server, large)
        before = server.resident()
        server.forget_peak()
        with health_of(server.address) as health:
            wires = [Wire(server.address, windows=0) for _ in range(40)]
            for wire in wires:
                ask(wire, f"{SERVICE}Attend", large.SerializeToString())
            assert eventually(lambda: refused(server, large), 30)
            assert eventually(lambda: not refused(server, large), 30)
        assert server.peak() - before < 40_000_000  # not 40 answers, each of which is there twice
        assert health.seconds and not health.failures
        for wire in wires:
            wire.close()


@pytest.mark.parametrize("options", [{"top_k": 1}, {"encoding": attention_pb2.ENCODING_UINT8}], ids=["top_k", "uint8"])
def test_small_answers_of_large_maps_stay_within_the_budget(
    repository: Path, frontends: int, options: dict[str, int]
) -> None:
    request = attend("tiny", *[text(LONGEST)] * 256, **options)
    with capped(repository, frontends=frontends, limits={"max_held_bytes": 8_000_000}) as server:
        assert server.stub.Attend(request, timeout=60).results
        before = server.resident()
        server.forget_peak()
        calls = [server.stub.Attend.future(request, timeout=60) for _ in range(20)]
        codes = {each.code() for each in calls}
        assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED}
        assert grpc.StatusCode.OK in codes
        assert server.peak() - before < CAP // 16
        assert not refused(server, request)


def test_a_reader_that_is_slow_but_reads_gets_everything(repository: Path, frontends: int) -> None:
    request = attend("tiny", *[text(LONGEST)] * 64)
    with capped(repository, frontends=frontends, limits={"answer_seconds": 20}) as server:
        whole = len(server.stub.Attend(request).SerializeToString())
        wire = Wire(server.address, windows=65_535)
        stream = ask(wire, f"{SERVICE}Attend", request.SerializeToString())
        while stream not in wire.ended:
            before = wire.received[stream]
            wire.pump(0.05)
            wire.allow(stream, wire.received[stream] - before)
            time.sleep(0.01)
            assert not wire.gone
        assert wire.ended[stream] == 0
        assert abs(wire.received[stream] - 5 - whole) < 4096  # times differ in their digits
        wire.close()
