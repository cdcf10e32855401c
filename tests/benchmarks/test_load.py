"""The load generator against real gRPC servers, and its arithmetic."""

import asyncio
import time
from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from benchmarks.load import OK, RESOURCE_EXHAUSTED, Outcome, Plan, drive, merge, percentile

DEADLINE_EXCEEDED = 4
REFUSE, SLEEP, AGAIN = "/test.Test/Refuse", "/test.Test/Sleep", "/test.Test/Again"


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
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        if details.method == AGAIN:
            return grpc.unary_stream_rpc_method_handler(lambda request, context: iter([request] * 3))
        return grpc.unary_unary_rpc_method_handler({REFUSE: _refuse, SLEEP: _sleep}[details.method])


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((_Handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def run(plan: Plan) -> Outcome:
    return asyncio.run(drive(plan))


def test_refusals_are_counted_with_their_retry_info(target: str) -> None:
    outcome = run(Plan(target, REFUSE, [b""], 0.3, rate=50, warm=0.0))
    assert outcome.retry == len(outcome.latencies[RESOURCE_EXHAUSTED]) > 0 and outcome.done == 0


def test_deadlines_are_sent(target: str) -> None:
    outcome = run(Plan(target, SLEEP, [b""], 0.2, rate=20, warm=0.0, deadline=0.02))
    assert set(outcome.latencies) == {DEADLINE_EXCEEDED}


def test_a_closed_loop_has_as_many_calls_under_way_as_callers(target: str) -> None:
    outcome = run(Plan(target, SLEEP, [b"abc"], 0.5, concurrency=4, warm=0.0))
    assert 4 <= outcome.done <= 24  # four threads, a tenth of a second each
    assert min(outcome.latencies[OK]) >= 0.1 and outcome.received == 3 * outcome.done


def test_a_stream_is_one_call(target: str) -> None:
    outcome = run(Plan(target, AGAIN, [b"ab"], 0.2, concurrency=1, warm=0.0, streams=True))
    assert outcome.received == 6 * outcome.done > 0


def test_latency_counts_from_when_a_call_was_meant_to_be_sent(target: str) -> None:
    # 80 a second meet a server of 40 a second: what waits grows, and with it what a caller sees.
    outcome = run(Plan(target, SLEEP, [b""], 1.0, rate=80, warm=0.0))
    assert outcome.unsent == 0 and outcome.done > 50
    assert max(outcome.latencies[OK]) > 0.4


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
