"""A real Prometheus scrapes a real server, and finds what the dashboards will ask for."""

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

import limelight
from tests.kit.bundles import tiny
from tests.kit.serving import serving

SCRAPE = 0.5
PATIENCE = 30.0


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a Prometheus, and the metrics page that it scrapes after a few calls."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    tiny(folder / "models")
    with serving(folder / "models", metrics_port=free_port()) as running:
        with limelight.Client(running.server.address) as client:
            for _ in range(3):
                client.attend("tiny", {"text": "the cat"})
            with pytest.raises(limelight.NotFound):
                client.predict("nobody", {"text": "the cat"})
        target = f"127.0.0.1:{running.server.metrics_port}"
        config = {
            "global": {"scrape_interval": f"{int(SCRAPE * 1000)}ms", "scrape_timeout": f"{int(SCRAPE * 1000)}ms"},
            "scrape_configs": [{"job_name": "limelight", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML too
        address = f"127.0.0.1:{free_port()}"
        command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
        process = subprocess.Popen(
            [*command, f"--web.listen-address={address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield f"http://{address}", f"http://{target}/metrics"
        finally:
            process.terminate()
            process.wait()


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def query(prometheus: str, expression: str) -> float:
    """Ask until there is an answer; its sum over all series."""
    url = f"{prometheus}/api/v1/query?query={urllib.parse.quote(expression)}"
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                result = json.load(response)["data"]["result"]
        except OSError:
            result = []
        if result:
            return sum(float(series["value"][1]) for series in result)
        time.sleep(SCRAPE)
    raise AssertionError(f"Prometheus has no answer to {expression}")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("limelight_model_ready", 1),
        ('grpc_server_handled_total{grpc_method="Attend",grpc_code="OK"}', 3),
        ('grpc_server_handled_total{grpc_method="Predict",grpc_code="NOT_FOUND"}', 1),
        ('grpc_server_started_total{grpc_method="Generate"}', 0),
        ('grpc_server_handled_total{grpc_method="Attend",grpc_code="INTERNAL"}', 0),
        ('absent(grpc_server_handled_total{grpc_method="Generate"})', 1),
        ('grpc_server_handling_seconds_count{grpc_method="Attend"}', 3),
        ('limelight_stage_duration_seconds_count{stage="compute"}', 3),
        ('limelight_tokens_total{kind="real"}', 6),
        ('limelight_tokens_total{kind="padding"}', 0),
        ("limelight_queue_depth", 0),
        ("limelight_inflight_requests", 0),
        ("sum(rate(limelight_attention_bytes_total[1m])) >= bool 0", 1),
    ],
)
def test_prometheus_finds(expression: str, value: float, scraped: tuple[str, str]) -> None:
    assert query(scraped[0], expression) == value


def test_a_latency_quantile_can_be_asked_for(scraped: tuple[str, str]) -> None:
    quantile = "histogram_quantile(0.99, sum by (le) (grpc_server_handling_seconds_bucket{grpc_method='Attend'}))"
    assert 0.0001 < query(scraped[0], quantile) < 30


def test_promtool_finds_nothing_to_complain_of(scraped: tuple[str, str]) -> None:
    with urllib.request.urlopen(scraped[1], timeout=5) as response:
        page = response.read()
    result = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    complaints = [line for line in result.stderr.decode().splitlines() if line.startswith(("limelight", "grpc"))]
    assert complaints == []
