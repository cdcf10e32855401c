"""The load generator against real gRPC servers, and its arithmetic."""

import itertools
import select
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from benchmarks.load.drive import closed, open_loop
from benchmarks.load.plan import (
    DEADLINE_EXCEEDED,
    OK,
    RESOURCE_EXHAUSTED,
    Outcome,
    Plan,
    arrivals,
    merge,
    percentile,
)
from benchmarks.load.wire import UNAVAILABLE, Connection, Ended, message

ECHO, REFUSE, SLEEP = "/test.Test/Echo", "/test.Test/Refuse", "/test.Test/Sleep"


def _refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
    details = any_pb2.Any()
    details.Pack(error_details_pb2.RetryInfo())
    status = status_pb2.Status(code=RESOURCE_EXHAUSTED, message="full", details=[details])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")


def _sleep(request: bytes, context: grpc.ServicerContext) -> bytes:
    time.sleep(0.1)
    return request


class _Handlers(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        handlers = {ECHO: lambda request, context: request, REFUSE: _refuse, SLEEP: _sleep}
        found = handlers.get(details.method)
        return grpc.unary_unary_rpc_method_handler(found) if found else None


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with _serving() as address:
        yield address


@contextmanager
def _serving(*options: tuple[str, int]) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1), *options])
    server.add_generic_rpc_handlers((_Handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def _ends(wire: Connection, count: int) -> list[Ended]:
    found: list[Ended] = []
    while len(found) < count:
        readable, _, _ = select.select([wire.socket], [wire.socket] if wire.writes else [], [], 10)
        assert readable or wire.writes
        wire.flush()
        if readable:
            found += wire.receive()
    return found


def test_no_more_calls_are_under_way_than_the_server_takes_on_a_connection() -> None:
    with _serving(("grpc.max_concurrent_streams", 2)) as target:
        wire = Connection(target, ECHO)
        first = wire.send(message(b""))  # its answer comes after the server's settings
        assert [each.call for each in _ends(wire, 1)] == [first]
        calls = [wire.send(message(b"x")) for _ in range(7)]
        assert wire.held == 5
        wire.cancel(calls[6])
        ended = _ends(wire, 6)
        assert {each.call for each in ended} == set(calls[:6])
        # A server that is short of time counts a stream for a moment after its end, and refuses the next one.
        assert {each.status for each in ended} <= {OK, UNAVAILABLE}
        wire.close()


def test_every_call_ends_once_with_its_status_whatever_its_size(target: str) -> None:
    wire = Connection(target, ECHO)
    sizes = [0, 1, 16_379, 16_380, 50_000] * 4  # together far over the 65,535 bytes that a server takes unasked
    calls = [wire.send(message(bytes(size))) for size in sizes]
    ended = _ends(wire, len(calls))
    assert sorted(each.call for each in ended) == calls
    assert {each.status for each in ended} == {OK}
    assert wire.received == sum(sizes) + 5 * len(sizes)
    wire.close()


def test_a_refusal_is_told_with_its_retry_info(target: str) -> None:
    wire = Connection(target, REFUSE)
    stream = wire.send(message(b""))
    assert _ends(wire, 1) == [Ended(stream, RESOURCE_EXHAUSTED, True)]
    wire.close()


def test_deadlines_are_sent(target: str) -> None:
    wire = Connection(target, SLEEP, timeout=0.02)
    wire.send(message(b""))
    assert _ends(wire, 1)[0].status == DEADLINE_EXCEEDED
    wire.close()


def test_a_closed_loop_has_as_many_calls_under_way_as_callers(target: str) -> None:
    outcome = closed(Plan(target, SLEEP, [b""], 0.5, concurrency=4, warm=0.0))
    assert 4 <= outcome.done <= 24  # four threads, a tenth of a second each
    assert min(outcome.latencies[OK]) >= 0.1


def test_latency_counts_from_when_a_call_was_meant_to_be_sent(target: str) -> None:
    # 80 a second meet a server of 40 a second: what waits grows, and with it what a caller sees.
    outcome = open_loop(Plan(target, SLEEP, [b""], 1.0, rate=80, warm=0.0))
    assert outcome.unanswered == 0
    assert outcome.done == len(arrivals(80, 1.0, 1))
    assert max(outcome.latencies[OK]) > 0.4


def test_arrivals_are_as_many_as_the_rate_and_as_irregular_as_chance() -> None:
    times = arrivals(1000, 20, seed=3)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert abs(len(times) / 20_000 - 1) < 0.03  # 4 standard deviations
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert abs(deviation / mean - 1) < 0.05  # of an exponential they are equal
    assert times != arrivals(1000, 20, seed=4)


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(each) for each in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]


def test_generators_are_taken_together_and_their_time_is_given_back() -> None:
    def outcome(latencies: dict[int, list[float]], cpu: float) -> Outcome:
        return Outcome(seconds=10, latencies=latencies, server_cpu=7, generator_cpu=cpu, retry=1)

    both = merge([outcome({OK: [0.2, 2.0]}, 1), outcome({OK: [0.4], DEADLINE_EXCEEDED: [1.0]}, 3)])
    assert (both.done, both.rate, both.goodput(1.0)) == (3, 0.3, 0.2)
    assert (both.generator_cpu, both.server_cpu, both.retry) == (4, 7, 2)
    assert both.rate_without_generator(cores=2) == 3 / 8  # 4 of 20 core seconds were not the server's
