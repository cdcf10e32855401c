"""Many calls at once on one connection are answered in turn; past what may wait, callers are told to come back."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from limelight.v1 import service_pb2_grpc
from tests.kit import bundles
from tests.kit.processes import scrape
from tests.kit.serving import Running, free_port, generate, predict, refusal, serving, text

ONE, TWO = predict("tiny", text("the cat")), predict("echo", text("the cat sat"))
_TOKENS = generate("echo", text("the cat"))
OK = grpc.StatusCode.OK


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder)
    return folder


@pytest.fixture(scope="module", params=[1, 0], ids=["a frontend and an engine", "one process"])
def running(repository: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    with serving(repository, frontends=request.param, metrics_port=free_port()) as running:
        yield running


async def _outcomes(address: str, calls: int, at_once: int, channels: int = 1) -> Counter[str]:
    """Make calls from one program, so many at the same time, without trying any again; count how they ended."""
    options = (("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1))
    opened = [grpc.aio.insecure_channel(address, options) for _ in range(channels)]
    stubs = [service_pb2_grpc.AttentionServiceStub(each) for each in opened]
    gate = asyncio.Semaphore(at_once)

    async def one(number: int) -> str:
        stub: Any = stubs[number % channels]
        async with gate:
            try:
                if number % 7 == 0:
                    return (
                        "OK" if [each async for each in stub.Generate(generate("echo", text("the cat")))] else "EMPTY"
                    )
                await stub.Predict(TWO if number % 2 else ONE)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
            return "OK"

    found = Counter(await asyncio.gather(*(one(number) for number in range(calls))))
    await asyncio.gather(*(each.close() for each in opened))
    return found


@pytest.mark.parametrize(
    ("calls", "at_once", "channels"),
    [(1000, 1000, 1), (1000, 1000, 4)],
    ids=["1,000 at once", "four connections"],
)
def test_an_idle_server_answers_all_of_them(running: Running, calls: int, at_once: int, channels: int) -> None:
    found = asyncio.run(_outcomes(running.server.address, calls, at_once, channels))
    assert found == {"OK": calls}


def test_past_what_may_wait_calls_are_told_when_to_come_back_and_the_next_is_answered(repository: Path) -> None:
    with serving(
        repository, frontends=1, metrics_port=free_port(), max_calls_per_connection=1, pending_calls=8
    ) as running:
        calls = [running.stub.Predict.future(ONE) for _ in range(200)]
        codes = Counter(each.code() for each in calls)
        assert set(codes) == {OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        for each in calls:
            if each.code() is not OK:
                told = refusal(each.exception())
                assert told.reason == "QUEUE_FULL" and told.retry is not None and told.retry > 0
        counted = scrape(running.server.metrics_port)
        refused = [counted[f'limelight_rejected_total{{reason="{each}"}}'] for each in ("queue_full", "overload")]
        assert sum(refused) == codes[grpc.StatusCode.RESOURCE_EXHAUSTED]
        assert running.stub.Predict(ONE, timeout=60).predictions


def test_one_connection_with_a_thousand_calls_keeps_no_other_from_its_turn(repository: Path) -> None:
    ended: list[str] = []
    with (
        serving(repository, frontends=1, max_calls_per_connection=2) as running,
        grpc.insecure_channel(running.server.address, [("grpc.use_local_subchannel_pool", 1)]) as channel,
    ):
        other = service_pb2_grpc.AttentionServiceStub(channel)
        other.Predict(ONE, timeout=60)
        # Of several rows: the server takes longer for one than this client for sending it, so that they wait there.
        several = predict("tiny", *(text("the cat") for _ in range(8)))
        many = [running.stub.Predict.future(several) for _ in range(1000)]
        few = [other.Predict.future(ONE) for _ in range(5)]
        for name, calls in (("many", many), ("few", few)):
            for each in calls:
                each.add_done_callback(lambda _, name=name: ended.append(name))
        assert Counter(each.code() for each in (*many, *few)) == {OK: 1005}
    assert "many" in ended[max(place for place, name in enumerate(ended) if name == "few") :]
