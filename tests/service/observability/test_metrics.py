"""The metrics that are scraped: names and labels that dashboards expect, present from the start, right after a call."""

import gzip
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from prometheus_client import ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import parser as openmetrics

from limelight_bundle.errors import LimelightError
from limelight_service.observability import metrics_server
from limelight_service.observability.counters import Snapshot
from limelight_service.observability.exposition import SnapshotCollector, without_gauges
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.metrics_server import MetricsServer
from limelight_service.observability.observer import Rejection, Stage, WorkDone
from limelight_service.platform.descriptors import room_for_scrapers
from tests.service.metered import counted, parsed


def idle() -> WorkDone:
    """Tell of one worker without work."""
    return WorkDone(1, 0.0, 0.0, 0.0)


def test_what_the_engine_tells_is_found_under_the_documented_names() -> None:
    metrics = Metrics()
    metrics.model("han", 2, ready=True, digest="abc", provider="CPUExecutionProvider")
    metrics.model("old", 1, ready=False, digest="", provider="")
    for stage in Stage:
        metrics.stage("han", stage, 0.01)
    metrics.batch("han", 4, 100, 28)
    metrics.watch(lambda: {"han": (3, 1)}, idle)
    metrics.rejected(Rejection.QUEUE_FULL, 5)
    metrics.attention_bytes("han", 4096)
    values = counted(metrics)
    for stage in ("preprocess", "queue", "batch", "compute", "encode"):
        assert values[f'limelight_stage_duration_seconds_count{{model="han",stage="{stage}"}}'] == 1
    assert values['limelight_batch_rows_sum{model="han"}'] == 4
    assert values['limelight_tokens_total{kind="real",model="han"}'] == 100
    assert values['limelight_tokens_total{kind="padding",model="han"}'] == 28
    assert values['limelight_queue_depth{model="han"}'] == 3
    assert values['limelight_inflight_requests{model="han"}'] == 1
    assert values['limelight_rejected_total{reason="queue_full"}'] == 5
    assert values['limelight_rejected_total{reason="deadline"}'] == 0
    assert values['limelight_attention_bytes_total{model="han"}'] == 4096
    assert values['limelight_model_ready{model="han",version="2"}'] == 1
    assert values['limelight_model_ready{model="old",version="1"}'] == 0
    info = 'limelight_model_info{digest="abc",model="han",provider="CPUExecutionProvider",version="2"}'
    assert values[info] == 1


def test_what_processes_use_has_the_names_and_values_of_prometheus_own_client() -> None:
    official = {each.name: each for family in ProcessCollector(registry=None).collect() for each in family.samples}
    ours = {name.removesuffix("{}"): value for name, value in counted(Metrics(), Metrics()).items()}
    for name, processes in {"cpu_seconds_total": 2, "resident_memory_bytes": 2, "open_fds": 1, "max_fds": 1}.items():
        assert ours[f"process_{name}"] == pytest.approx(processes * official[f"process_{name}"].value, rel=0.2), name
    assert ours["process_start_time_seconds"] == pytest.approx(official["process_start_time_seconds"].value, abs=1)


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    metrics = Metrics()
    metrics.rejected(Rejection.DEADLINE, 2)
    snapshot = metrics.snapshot()  # one, since each page tells of the process anew
    server = MetricsServer("127.0.0.1", 0, lambda: [snapshot])
    yield server
    server.stop()


def get(server: MetricsServer, path: str = "/metrics", method: str = "GET", **fields: str) -> Any:
    url, headers = (
        f"http://127.0.0.1:{server.port}{path}",
        {name.replace("_", "-"): each for name, each in fields.items()},
    )
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers, method=method), timeout=10)


def test_metrics_are_served_until_the_port_is_closed() -> None:
    server = MetricsServer("127.0.0.1", 0, lambda: [Metrics().snapshot()])
    with get(server) as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert parsed(response.read())['limelight_rejected_total{reason="deadline"}'] == 0
    server.stop()
    with pytest.raises(urllib.error.URLError):
        get(server)


def test_openmetrics_is_served_to_a_scraper_that_prefers_it(server: MetricsServer) -> None:
    # As Prometheus 3 asks.
    accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
    with get(server, Accept=accept) as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        page = response.read().decode()
    families = {family.name: family for family in openmetrics.text_string_to_metric_families(page)}
    assert page.endswith("# EOF\n")
    rejected = {each.labels["reason"]: each.value for each in families["limelight_rejected"].samples}
    assert rejected["deadline"] == 2 and families["limelight_rejected"].type == "counter"
    assert families["limelight_stage_duration_seconds"].type == "histogram"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/openmetrics-text;q=0, text/plain", "text/plain"),
        ("application/openmetrics-text;version=1.0.0;q=0.2, text/plain;q=0.9", "text/plain"),
        ("Application/OpenMetrics-Text;q=0.9, text/plain;q=0.2", "application/openmetrics-text"),
        ("text/*;q=0.1, application/*", "application/openmetrics-text"),
        ("*/*", "text/plain"),
    ],
)
def test_the_format_is_the_one_that_is_taken_most_gladly(server: MetricsServer, accept: str, kind: str) -> None:
    with get(server, Accept=accept) as response:
        assert response.headers.get_content_type() == kind


def test_a_large_page_goes_out_whole_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    for number in range(2000):
        metrics.stage(f"model-{number}", Stage.COMPUTE, 0.01)
    snapshot = metrics.snapshot()
    server = MetricsServer("127.0.0.1", 0, lambda: [snapshot])
    page = get(server).read()
    assert len(page) > 3_000_000 and page.count(b"\n") > 38_000 and page.endswith(b"\n")
    with socket.create_connection(("127.0.0.1", server.port)) as impatient:
        impatient.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        impatient.recv(1000)
    assert get(server).read() == page
    server.stop()
    assert not caplog.records


def test_a_page_is_compressed_for_a_scraper_that_accepts_it(server: MetricsServer) -> None:
    with get(server) as plain, get(server, Accept_Encoding="deflate, gzip") as packed:
        assert packed.headers["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain.headers
        assert gzip.decompress(packed.read()) == plain.read()
    with get(server, Accept_Encoding="gzip;q=0, *") as refused:
        assert "Content-Encoding" not in refused.headers


def test_pages_whose_name_points_here_read_nothing(server: MetricsServer) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(server, Host="evil.example:9464")
    assert get(server, Host="localhost:9464").status == 200


def test_head_gets_the_headers_of_the_page(server: MetricsServer) -> None:
    with get(server) as whole, get(server, method="HEAD") as head:
        assert head.headers["Content-Length"] == whole.headers["Content-Length"] == str(len(whole.read()))
        assert head.headers["Content-Type"] == whole.headers["Content-Type"] and head.read() == b""


def test_a_taken_port_is_one_clear_line(server: MetricsServer) -> None:
    with pytest.raises(LimelightError, match="metrics cannot be served on 127"):
        MetricsServer("127.0.0.1", server.port, list)


def test_an_ipv6_address_is_served() -> None:
    server = MetricsServer("::1", 0, lambda: [Metrics().snapshot()])
    assert urllib.request.urlopen(f"http://[::1]:{server.port}/metrics", timeout=10).status == 200
    server.stop()


@pytest.mark.parametrize(("path", "method", "code"), [("/secrets", "GET", 404), ("/metrics", "POST", 405)])
def test_other_paths_and_methods_are_refused(server: MetricsServer, path: str, method: str, code: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(server, path, method)
    assert refused.value.code == code


def test_a_page_that_fails_is_an_error_in_the_log_and_the_next_is_served(caplog: pytest.LogCaptureFixture) -> None:
    pages = iter([None, [Metrics().snapshot()]])
    server = MetricsServer("127.0.0.1", 0, lambda: next(pages))  # type: ignore[arg-type, return-value]
    with pytest.raises(urllib.error.HTTPError) as failed:
        get(server)
    assert failed.value.code == 500 and [each.levelname for each in caplog.records] == ["ERROR"]
    assert get(server).status == 200
    server.stop()


def request_threads() -> int:
    return sum("process_request_thread" in each.name for each in threading.enumerate())


def test_connections_that_say_nothing_and_endless_requests_keep_no_scraper_out(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "limelight_service.observability.metrics_server._Handler.timeout", 600.0
    )  # so that none ends for its time
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(300)]
        assert get(server).status == 200
        end = time.monotonic() + 60
        while request_threads() > room_for_scrapers() and time.monotonic() < end:
            time.sleep(0.05)
        assert 0 < request_threads() <= room_for_scrapers()
        silent[0].settimeout(60)
        assert silent[0].recv(1) == b""  # the oldest made room
        endless = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        with pytest.raises(OSError):
            for _ in range(1000):
                endless.sendall(b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 65536)
        assert get(server).status == 200


def test_a_connection_that_was_closed_for_another_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had begun a request: its end looks like the end of that request."""
    monkeypatch.setattr(metrics_server, "room_for_scrapers", lambda: 2)
    pages = []
    server = MetricsServer("127.0.0.1", 0, lambda: pages.append(1) or [])
    try:
        with ExitStack() as stack:
            for _ in range(4):
                one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                one.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            assert get(server).status == 200
            assert len(pages) == 1
    finally:
        server.stop()


def test_a_model_that_is_gone_is_in_no_line() -> None:
    metrics = Metrics()
    for version in (1, 2):
        metrics.model("han", version, ready=True, digest="abc", provider="CPUExecutionProvider")
    metrics.model("other", 1, ready=True, digest="abc", provider="CPUExecutionProvider")
    metrics.stage("han", Stage.COMPUTE, 0.01)
    metrics.batch("han", 4, 100, 28)
    metrics.attention_bytes("han", 4096)
    assert [name for name in counted(metrics) if '"han"' in name]
    metrics.gone("han", 1, last=False)
    values = counted(metrics)
    assert not [name for name in values if 'version="1"' in name and "han" in name]
    assert values['limelight_stage_duration_seconds_count{model="han",stage="compute"}'] == 1
    metrics.gone("han", 2, last=True)
    values = counted(metrics)
    assert not [name for name in values if '"han"' in name]
    assert values['limelight_model_ready{model="other",version="1"}'] == 1


def sent(snapshots: list[Snapshot]) -> list[Snapshot]:
    """Carry snapshots as another process gets them."""
    found: list[Snapshot] = json.loads(json.dumps(snapshots))
    return found


def test_several_processes_are_summed_up_and_levels_are_those_of_the_living() -> None:
    mine, other, ended = Metrics(), Metrics(), Metrics()
    for metrics in (other, ended):
        metrics.model("han", 1, ready=metrics is other, digest="d", provider="p")
        metrics.batch("han", 2, 10, 0)
        metrics.stage("han", Stage.COMPUTE, 0.5)
        metrics.watch(lambda: {"han": (0, 3)}, idle)
    mine.model("han", 1, ready=True, digest="d", provider="p")
    mine.watch(lambda: {"han": (0, 1)}, idle)
    others = sent([mine.snapshot(), other.snapshot(), without_gauges(ended.snapshot())])
    values = parsed(generate_latest(SnapshotCollector(lambda: others)))
    assert values['limelight_tokens_total{kind="real",model="han"}'] == 20
    assert values['limelight_stage_duration_seconds_count{model="han",stage="compute"}'] == 2
    assert values['limelight_stage_duration_seconds_sum{model="han",stage="compute"}'] == 1
    assert values['limelight_stage_duration_seconds_bucket{le="0.5",model="han",stage="compute"}'] == 2
    assert values['limelight_stage_duration_seconds_bucket{le="0.25",model="han",stage="compute"}'] == 0
    assert values['limelight_inflight_requests{model="han"}'] == 4
    assert values['limelight_model_ready{model="han",version="1"}'] == 1
