"""Memory that calls hold together is bounded, from when maps are computed until gRPC has taken the answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from limelight.v1 import attention_pb2, service_pb2
from tests.kit.serving import attend, eventually, predict, refusal, serving, text

LONGEST = " ".join(["cat"] * 30)


@contextmanager
def unread(address: str, request: service_pb2.AttendRequest) -> Iterator[Any]:
    """Call as a client that does not read: nothing but what fits the connection's windows leaves the server."""
    # Without probes the windows stay as small as they are at the start, 64 KiB.
    options = [("grpc.http2.bdp_probe", 0), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(address, options) as channel:
        method = channel.unary_stream(
            "/limelight.v1.AttentionService/Attend",
            request_serializer=service_pb2.AttendRequest.SerializeToString,
            response_deserializer=service_pb2.AttendResponse.FromString,
        )
        yield method(request, timeout=60)


@pytest.mark.parametrize("end", ["read", "cancelled"])
def test_an_answer_counts_until_it_is_sent(repository: Path, end: str) -> None:
    large = attend("tiny", *[text(LONGEST)] * 64)  # about a megabyte
    small = attend("tiny", text("cat"))

    def refused(request: service_pb2.AttendRequest) -> bool:
        try:
            assert running.stub.Attend(request).results
        except grpc.RpcError as error:
            told = refusal(error)
            assert (told.code, told.reason) == ("RESOURCE_EXHAUSTED", "QUEUE_FULL")
            assert told.retry and "maps and answers in flight take" in told.message
            return True
        return False

    with (
        serving(repository, max_instances=64, max_held_bytes=1_000_000) as running,
        unread(running.server.address, large) as call,
    ):
        call.initial_metadata()  # which come before the answer, once that is computed
        assert refused(small)
        if end == "read":
            assert len(next(call).results) == 64
        else:
            call.cancel()
        assert eventually(lambda: not refused(small))
        assert eventually(lambda: not refused(large))  # alone it gets its share


def test_what_the_machine_has_is_looked_up_when_the_server_starts_and_by_no_call(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def look() -> int:
        looked.append(0)
        return 2**30

    with serving(repository, max_held_bytes=0) as running:  # a share of it
        monkeypatch.setattr("limelight_service.settings.available_memory", look)  # which opens ten files
        assert running.stub.Predict(predict("tiny", text("cat"))).predictions
        assert running.stub.Attend(attend("tiny", text("cat"))).results
    assert not looked


def test_a_small_answer_of_large_maps_counts_as_the_maps_while_they_are_computed(repository: Path) -> None:
    row = {"selections": [{"queries": [0], "heads": [0]}], "encoding": attention_pb2.ENCODING_UINT8}
    request = attend("tiny", *[text(LONGEST)] * 16, **row)

    def outcomes() -> set[str]:
        calls = [running.stub.Attend.future(request) for _ in range(8)]
        return {each.code().name for each in calls}

    # 16 rows answer with 30 kB; whole, their maps take 350 kB.
    with serving(repository, lanes=16, max_held_bytes=600_000) as running:
        assert len(running.stub.Attend(request).results[0].maps[0].weights.data) == LONGEST.count("cat")
        assert eventually(lambda: outcomes() == {"OK", "RESOURCE_EXHAUSTED"})
    with serving(repository, lanes=16, max_held_bytes=20_000_000) as running:
        assert outcomes() == {"OK"}
