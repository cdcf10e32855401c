"""How much is asked of a server, by what it can do: the gauge that an autoscaler reads."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest

from limelight.v1 import service_pb2_grpc
from limelight_service.observability.exposition import joined, without_gauges
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.observer import Rejection, Stage, WorkDone
from limelight_service.observability.saturation import SATURATION, WINDOW, Part, Saturation
from tests.kit.bundles import tiny
from tests.kit.processes import process, scrape, started
from tests.kit.serving import eventually, free_port, predict, text


class Server:
    """Metrics of a server with two workers, under a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.work = WorkDone(2, 0.0, 0.0, 0.0)
        self.metrics = Metrics()  # without cores: this test's own processor time counts for nothing
        self.metrics.watch(dict, lambda: self.work)
        self.saturation = Saturation(lambda: self.now)

    def after(self, seconds: float, busy: float, begun: int, *, unfilled: float = 0.0, waiting: float = 0.0) -> float:
        """Let time pass with so much work and so many rows that began; gives the gauge then."""
        self.now += seconds
        self.work = WorkDone(2, self.work.busy + busy, self.work.unfilled + unfilled, waiting)
        for _ in range(begun):
            self.metrics.stage("m", Stage.QUEUE, 0.0)
        return self.saturation.of(self.metrics.snapshot())


def test_seconds_of_work_asked_for_by_those_that_the_workers_have() -> None:
    server = Server()
    assert server.after(10, 0, 0) == 0
    assert server.after(10, 12, 60) == pytest.approx(0.6)
    assert server.after(10, 0, 0) == 0
    assert server.after(10, 20, 100, waiting=10) == pytest.approx(1.5)  # which are asked for as well
    assert server.after(10, 20, 100, unfilled=15) == pytest.approx(0.25)  # in full batches it could do four times that


def test_rows_that_are_refused_count_like_those_that_began() -> None:
    server = Server()
    server.metrics.rejected(Rejection.OVERLOAD, 290)
    server.metrics.rejected(Rejection.CANCELLED, 10)
    assert server.after(10, 20, 100, unfilled=15) == pytest.approx(4)  # and batches were as full as they can be
    server.metrics.rejected(Rejection.QUOTA, 500)
    server.metrics.rejected(Rejection.STOPPING, 500)
    assert server.after(10, 20, 100) == pytest.approx(1)  # these say nothing of what it can do
    server.metrics.rejected(Rejection.DEADLINE, 50)
    assert server.after(10, 20, 0) == pytest.approx((20 + 50 * 60 / 200) / 20)  # as long as those that ever began


def test_the_window_slides_however_often_it_is_read() -> None:
    server = Server()
    server.after(WINDOW, 0, 0)
    values = [server.after(1, 2, 10) for _ in range(12)]
    assert values == pytest.approx([each / (WINDOW + each) if each < WINDOW else 1 for each in range(1, 13)])
    server.after(3600, 0, 0)
    assert server.after(1, 2, 10) == pytest.approx(2 / 3601 / 2, abs=1e-3)
    assert not server.saturation.is_due
    server.now += WINDOW
    assert server.saturation.is_due


def test_an_event_loop_or_the_cores_can_be_what_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    server, frontend = Server(), Metrics(cores=4)
    used = {Part.CORES: 0.0, Part.FRONTENDS: 0.0}
    for part, capacity in ((Part.CORES, 4), (Part.FRONTENDS, 1)):
        frontend._add_clock(part, lambda part=part: used[part], capacity)

    def after(cores: float, loop: float) -> float:
        server.now += 10
        server.work = WorkDone(2, server.work.busy + 1, 0.0, 0.0)
        used[Part.CORES] += cores
        used[Part.FRONTENDS] += loop
        server.metrics.stage("m", Stage.QUEUE, 0.0)
        both = joined([server.metrics.snapshot(), frontend.snapshot()])
        return server.saturation.settle(both)[SATURATION]["series"][0][1][0]

    assert after(30, 2) == pytest.approx(0.75, abs=0.01)
    assert after(10, 9) == pytest.approx(0.9)
    past = without_gauges(frontend.snapshot())  # the process ends: its work stays counted, what it could do does not
    server.now += 10
    assert server.saturation.of(joined([server.metrics.snapshot(), past])) == 0


@pytest.fixture
def overloaded(tmp_path: Path) -> Iterator[int]:
    """The metrics port of a server with one core, called by far more than it can answer, within a short deadline."""
    port = free_port()
    tiny(tmp_path / "models")
    over = threading.Event()

    def call(stub: service_pb2_grpc.AttentionServiceStub) -> None:
        while not over.is_set():
            calls = [stub.Predict.future(request, timeout=0.2) for _ in range(64)]
            for each in calls:
                with suppress(grpc.RpcError, grpc.FutureCancelledError):
                    each.result()

    request = predict("tiny", *[text("the cat sat on the mat " * 4)] * 16)
    with ExitStack() as stack:
        flags = ["--repository", str(tmp_path / "models"), "--port", "0", "--metrics-port", str(port), "--cores", "1"]
        running, _ = stack.enter_context(process(*flags))
        channel = stack.enter_context(grpc.insecure_channel(started(running)))
        stub = service_pb2_grpc.AttentionServiceStub(channel)
        callers = [threading.Thread(target=call, args=(stub,)) for _ in range(4)]
        for each in callers:
            each.start()
        yield port
        over.set()
        for each in callers:
            each.join()


def test_an_overload_shows_where_the_queue_stays_short(overloaded: int) -> None:
    depths = []

    def is_above_one() -> bool:
        time.sleep(0.5)
        page = scrape(overloaded)
        depths.append(page['limelight_queue_depth{model="tiny"}'])
        return page["limelight_saturation"] > 1.2

    assert eventually(is_above_one, 60)
    assert max(depths) < 512  # half of queue_rows, of which another alert warns
