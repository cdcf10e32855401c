"""deploy/load: Locust and h2load run against a server; the requests of k6 and ghz are held to the protocol."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from limelight.v1 import service_pb2, service_pb2_grpc
from tests.kit.processes import scrape
from tests.kit.serving import Running, free_port, serving

ROOT = Path(__file__).parents[2]
LOAD = ROOT / "deploy" / "load"
LOCUST = ROOT / "build" / "locust" / "bin" / "locust"  # made by .ci/run


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with one demo model."""
    repository = tmp_path_factory.mktemp("models")
    shutil.copytree(ROOT / "deploy" / "demo" / "dates", repository / "dates")
    with serving(repository, metrics_port=free_port()) as running:
        yield running


def test_locust_counts_predictions_and_attention(running: Running, tmp_path: Path) -> None:
    if not LOCUST.exists():
        pytest.skip("Locust is not installed in build/locust; .ci/run does that")
    for seconds in (3, 15, 60):  # a busy machine takes longer to start
        found = by_locust(running, tmp_path, seconds)
        if {"Predict dates", "Attend dates"} <= set(found):
            break
    for name in ("Predict dates", "Attend dates"):
        assert int(found[name]["Request Count"]) > 0 and int(found[name]["Failure Count"]) == 0


def by_locust(running: Running, folder: Path, seconds: int) -> dict[str, dict[str, str]]:
    """Run Locust; what it counted by the name of the call."""
    command = [LOCUST, "-f", LOAD / "locustfile.py", "--host", running.server.address, "--headless"]
    command += ["--users", "4", "--spawn-rate", "4", "--run-time", f"{seconds}s", "--csv", folder / "found"]
    result = subprocess.run([str(each) for each in command], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    with (folder / "found_stats.csv").open() as file:
        return {each["Name"]: each for each in csv.DictReader(file)}


def test_h2load_gets_an_answer_to_every_call(running: Running) -> None:
    if shutil.which("h2load") is None:
        pytest.skip("h2load is not installed (Debian package nghttp2-client)")
    environment = os.environ | {
        "TARGET": running.server.address, "CALLERS": "8", "REQUESTS": "100", "PYTHON": sys.executable,
    }  # fmt: skip
    command = [str(LOAD / "h2load.sh"), "dates", "7 March 2021"]
    before = answered(running)
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert "100 done, 100 succeeded, 0 failed" in result.stdout, result.stdout
    assert answered(running) - before == 100


def answered(running: Running) -> float:
    """Calls of Predict that were answered, as the server counts them, from the first on."""
    return sum(
        value
        for name, value in scrape(running.server.metrics_port).items()
        if name.startswith("grpc_server_handled_total{") and 'grpc_method="Predict"' in name and 'code="OK"' in name
    )


def requests() -> list[tuple[str, Any]]:
    """Method and request of each file that no test runs."""
    script = (LOAD / "k6.js").read_text()
    (method,) = re.findall(r"^const METHOD = '(.*)';$", script, re.M)
    (request,) = re.findall(r"^const REQUEST = (\{.*?\n\});$", script, re.M | re.S)
    config = json.loads((LOAD / "ghz.json").read_text())
    return [(method, json.loads(request)), (config["call"], config["data"])]


@pytest.mark.parametrize("place", [0, 1], ids=["k6", "ghz"])
def test_a_request_that_no_tool_sends_here_gets_an_answer(running: Running, place: int) -> None:
    method, data = requests()[place]
    assert re.fullmatch(r"limelight\.v1\.AttentionService[./]Attend", method)
    request = json_format.ParseDict(data, service_pb2.AttendRequest())
    answer = service_pb2_grpc.AttentionServiceStub(running.channel).Attend(request, timeout=60)
    assert list(answer.results[0].maps[0].weights.shape)[1] == 1


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (r"locust==\d+\.\d+\.\d+", (".ci/run", "docs/load.md")),
        (r"ray\[serve\]==\d+\.\d+\.\d+", (".ci/run", "docs/gateways.md")),
    ],
)
def test_tools_have_the_same_exact_version_everywhere(pattern: str, names: tuple[str, ...]) -> None:
    found = [set(re.findall(pattern, (ROOT / name).read_text())) for name in names]
    assert all(each == found[0] and len(each) == 1 for each in found), found
