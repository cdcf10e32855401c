"""What calls hold together is bounded, from when maps are computed until gRPC has taken the answer."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2
from service.attention.options import Encoding, HeadReduction, Options, Selection
from service.attention.plan import plan_attention
from service.engine.types import GenerationSettings, Query, Strategy
from service.errors import QueueFullError
from service.observability.metrics import Metrics
from service.rpc.budget import Budget, Passing
from service.rpc.prepare import CallOptions, prepare
from service.rpc.view import ModelView
from tests.service.engine.conftest import run_together
from tests.service.serving import attend, predict, refusal, serving, text

SENTENCE = "the cat sat on a mat"
LONGEST = " ".join(["cat"] * 30)


def budget(limit: int, lanes: int = 1) -> Budget:
    return Budget(limit, "answers", Metrics(), lanes=lanes)


def test_a_call_that_is_alone_always_gets_its_share() -> None:
    with budget(10).hold(50):
        pass
    several = budget(10)
    with several.hold(50), pytest.raises(QueueFullError), several.hold(1):
        pass
    with several.hold(1), several.hold(9), pytest.raises(QueueFullError), several.hold(1):
        pass


def test_what_is_given_back_is_free_for_others() -> None:
    shared = budget(10)
    first = shared.take(8)
    with pytest.raises(QueueFullError, match="8 bytes already, of at most 10"):
        shared.take(3)
    first.shrink(4)
    second = shared.take(6)
    first.release()
    assert shared.held == 6
    second.release()
    assert shared.held == 0


def test_of_what_is_passing_the_lanes_hold_no_more_than_fits_them() -> None:
    shared = budget(1000, lanes=2)
    rows = [Passing(400, 100)] * 20  # 4 of them fill a lane
    call = shared.take(10, rows)
    assert shared.held == 10 + 2 * 400
    with pytest.raises(QueueFullError):
        shared.take(0, [Passing(700, 700)])  # fills a lane alone, and takes more than what it drives out
    assert shared.held == 10 + 2 * 400  # nothing is left of what was refused
    small = shared.take(10, [Passing(40, 10)])
    assert shared.held == 20 + 2 * 400
    call.shrink(5)
    assert shared.held == 15 + 10
    small.release()
    call.release()
    assert shared.held == 0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)))), max_size=8),
    st.integers(1, 3),
)
def test_whatever_comes_and_goes_in_the_end_nothing_is_held(
    calls: list[tuple[int, list[tuple[int, int]]]], lanes: int
) -> None:
    shared, taken = budget(10**6, lanes), []
    for kept, rows in calls:
        before = shared.held
        taken.append(shared.take(kept, [Passing(many * size, size) for many, size in rows]))
        assert before <= shared.held <= before + kept + sum(size for _, size in rows) + 1  # rounded up
    for each in taken[::2]:
        each.shrink(1)
    for each in taken:
        each.release()
    assert shared.held == 0


@given(
    name=st.sampled_from(["tiny", "paper", "echo"]),
    sentence=st.sampled_from(["cat", SENTENCE, LONGEST]),
    encoding=st.sampled_from(list(Encoding)),
    narrow=st.booleans(),
    beams=st.booleans(),
)
def test_what_a_row_holds_while_it_is_computed_is_known_before(
    views: dict[str, ModelView], name: str, sentence: str, encoding: Encoding, narrow: bool, beams: bool
) -> None:
    view = views[name]
    few = (Selection(heads=(0,), queries=(0,)),)
    options = Options(few if narrow else (), encoding=encoding, reduce_heads=HeadReduction.MEAN, sequences=1 + beams)
    if not view.model.generates:
        options, beams = Options(options.selections, encoding=encoding), False
    strategy = Strategy.BEAM if beams else Strategy.GREEDY
    generation = GenerationSettings(strategy, max_new_tokens=8, beams=2, hypotheses=2 if beams else 1)
    plan = plan_attention(view.maps, options)
    call = CallOptions((), generation, options, plan, view.label_names(plan), 0, limit=10**9, truncate=False)
    (prepared,), _ = prepare(view, [text(sentence)], call, "instances[{}]")
    query = Query((prepared.row,), plan.keys, sequences=options.sequences, generation=generation)
    (answer,) = run_together(view.model, query)
    computed = [*answer.maps.values(), *(one for other in answer.other_sequences for one in other.maps.values())]
    size = sum(each.weights.nbytes for each in computed) + sum(each.nbytes for each in answer.outputs.values())
    assert size <= prepared.computing
    if not view.model.generates and not narrow and encoding is Encoding.FLOAT32:
        assert prepared.computing <= 2.2 * size + 2000  # the maps, their encoded copies, and small fields


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


def eventually(happened: Callable[[], bool]) -> bool:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if happened():
            return True
        time.sleep(0.01)
    return False


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


def test_maps_that_are_more_than_all_calls_may_hold_are_refused_before_they_are_computed(repository: Path) -> None:
    with serving(repository, max_held_bytes=10_000) as running:
        with pytest.raises(grpc.RpcError) as error:
            running.stub.Attend(attend("tiny", text("cat"), text(LONGEST), top_k=1))
        told = refusal(error.value)
        assert (told.code, told.retry) == ("RESOURCE_EXHAUSTED", None)
        assert "while it is computed; at most 10000 are allowed" in told.message
        assert running.stub.Attend(attend("tiny", text("cat"), top_k=1)).results
        assert running.stub.Predict(predict("tiny", text(LONGEST))).predictions


def test_what_the_machine_has_is_looked_up_when_the_server_starts_and_by_no_call(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def look() -> int:
        looked.append(0)
        return 2**30

    with serving(repository, max_held_bytes=0) as running:  # a share of it
        monkeypatch.setattr("service.settings.available_memory", look)  # which opens ten files
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
