"""What is scraped: names and labels that dashboards expect, there from the start, and right after a call."""

import re
import subprocess
import sys
import textwrap
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import pytest
from prometheus_client import generate_latest

from bundle.errors import LimelightError
from service.engine.observer import Rejection, Stage
from service.metrics import SECONDS, Metrics, MetricsServer


def scraped(metrics: Metrics) -> dict[str, float]:
    lines = generate_latest(metrics.registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def test_every_method_and_code_is_there_at_zero_before_the_first_call() -> None:
    metrics = Metrics()
    metrics.methods("unary", "limelight.v1.AttentionService", ["Predict"])
    labels = 'grpc_method="Predict",grpc_service="limelight.v1.AttentionService",grpc_type="unary"'
    values = scraped(metrics)
    assert values[f"grpc_server_started_total{{{labels}}}"] == 0
    for code in grpc.StatusCode:
        assert values[f'grpc_server_handled_total{{grpc_code="{code.name}",{labels}}}'] == 0
    assert values[f"grpc_server_handling_seconds_count{{{labels}}}"] == 0


def test_a_call_is_counted_and_timed() -> None:
    metrics = Metrics()
    method = metrics.methods("unary", "s", ["Predict"])["Predict"]
    method.begin()
    method.end(grpc.StatusCode.NOT_FOUND, 0.002)
    labels = 'grpc_method="Predict",grpc_service="s",grpc_type="unary"'
    values = scraped(metrics)
    assert values[f"grpc_server_started_total{{{labels}}}"] == 1
    assert values[f'grpc_server_handled_total{{grpc_code="NOT_FOUND",{labels}}}'] == 1
    bucket = 'grpc_server_handling_seconds_bucket{{grpc_method="Predict",grpc_service="s",grpc_type="unary",le="{}"}}'
    assert (values[bucket.format("0.001")], values[bucket.format("0.0025")]) == (0, 1)


def test_buckets_reach_from_100_microseconds_to_30_seconds() -> None:
    assert (SECONDS[0], SECONDS[-1]) == (1e-4, 30.0)


def test_what_the_engine_tells_is_found_under_the_documented_names() -> None:
    metrics = Metrics()
    metrics.model("han", 2, ready=True, digest="abc", provider="CPUExecutionProvider")
    metrics.model("old", 1, ready=False, digest="", provider="")
    for stage in Stage:
        metrics.stage("han", stage, 0.01)
    metrics.batch("han", 4, 100, 28)
    metrics.queued("han", 3)
    metrics.in_flight("han", 1)
    metrics.rejected(Rejection.QUEUE_FULL, 5)
    metrics.attention_bytes("han", 4096)
    values = scraped(metrics)
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


def test_metrics_are_served_and_a_taken_port_is_one_clear_line() -> None:
    metrics = Metrics()
    metrics.rejected(Rejection.DEADLINE, 2)
    server = MetricsServer(metrics, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.port}/metrics"
    try:
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        assert re.search(r'^limelight_rejected_total\{reason="deadline"\} 2\.0$', text, re.MULTILINE)
        with pytest.raises(LimelightError, match="metrics cannot be served on 127"):
            MetricsServer(metrics, "127.0.0.1", server.port)
    finally:
        server.stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=2)


def test_several_processes_are_summed_up(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from prometheus_client import generate_latest
        from service.engine.observer import Stage
        from service.metrics import Metrics
        metrics = Metrics()
        metrics.model("han", 1, ready=True, digest="d", provider="p")
        metrics.batch("han", 2, 10, 0)
        metrics.stage("han", Stage.COMPUTE, 0.5)
        if sys.argv[1] == "print":
            print(generate_latest(metrics.exposed()).decode())
        """
    )
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PATH": ""}
    root = Path(__file__).parents[2]
    for argument in ("quiet", "print"):
        run = subprocess.run(
            [sys.executable, "-c", program, argument],
            env=environment,
            cwd=root,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert run.returncode == 0, run.stderr
    assert 'limelight_tokens_total{kind="real",model="han"} 20.0' in run.stdout
    assert 'limelight_stage_duration_seconds_count{model="han",stage="compute"} 2.0' in run.stdout
