"""Metrics by the names of OpenTelemetry's conventions for generative AI, whatever protocol a request comes by."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import limelight
from limelight.v1 import service_pb2, values_pb2
from tests.kit import bundles
from tests.kit.processes import scrape, scrape_page
from tests.kit.serving import Refusal, Running, attend, eventually, free_port, generate, predict, serving, text
from tests.service.by_protocol import DOORS, ask, infer_by
from tests.service.open_inference.calls import infer_request, streamed

DURATION = "gen_ai_server_request_duration_seconds"
FIRST = "gen_ai_server_time_to_first_token_seconds"
OTHERS = "gen_ai_server_time_per_output_token_seconds"
# As the conventions have them (semantic-conventions-genai, docs/gen-ai/gen-ai-metrics.md).
BUCKETS = {
    DURATION: [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    FIRST: [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0],
    OTHERS: [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5],
}


@pytest.fixture(scope="module", params=[0, 2], ids=["one-process", "two-frontends"])
def running(request: pytest.FixtureRequest, repository: Path) -> Iterator[Running]:
    """A server whose page nobody else counts on."""
    ports = {"http_port": free_port(), "metrics_port": free_port()}
    with serving(repository, frontends=request.param, **ports) as served:
        yield served


def told(running: Running, metric: str, model: str, operation: str, error: str | None = "") -> tuple[float, float]:
    """Count and sum of a histogram's series; of a metric with errors that of one."""
    error_type = f'error_type="{error}",' if metric == DURATION else ""
    labels = (
        f'{{{error_type}gen_ai_operation_name="{operation}",gen_ai_provider_name="limelight",'
        f'gen_ai_request_model="{model}"}}'
    )
    page = scrape(running.server.metrics_port)
    return page.get(f"{metric}_count{labels}", 0.0), page.get(f"{metric}_sum{labels}", 0.0)


@pytest.mark.parametrize("door", DOORS)
def test_every_request_for_a_model_is_counted_by_what_is_done(running: Running, door: str) -> None:
    def count(error: str = "") -> float:
        return told(running, DURATION, "tiny", "classification", error)[0]

    before, errors = count(), count("INVALID_ARGUMENT")
    explained = told(running, DURATION, "tiny", "explain")[0]
    ask(running, door, predict("tiny", text("the cat"), text("a dog")))
    ask(running, door, attend("tiny", text("the cat")))
    infer_by(running, door, infer_request("tiny", {"text": np.array([b"the cat"], object)}, "logits"))
    assert isinstance(ask(running, door, predict("tiny", text(" "))), Refusal)
    ask(running, door, service_pb2.ExplainRequest(model=values_pb2.Model(name="tiny"), instances=[text("the cat")]))
    assert isinstance(ask(running, door, predict("invented", text("the cat"))), Refusal)
    assert eventually(lambda: count() == before + 3)
    assert count("INVALID_ARGUMENT") == errors + 1
    assert told(running, DURATION, "tiny", "explain")[0] == explained + 1
    assert "invented" not in scrape_page(running.server.metrics_port, "text/plain")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("by_token", [True, False])
def test_tokens_are_timed_in_streams_and_in_whole_answers(running: Running, door: str, by_token: bool) -> None:
    names = FIRST, OTHERS, DURATION
    before = [told(running, name, "echo", "text_completion") for name in names]
    began = time.monotonic()
    if by_token:
        tokens = len(ask(running, door, generate("echo", text("the cat sat")))) - 2  # start and end
    else:
        answer = ask(running, door, predict("echo", text("the cat sat")))
        tokens = len(answer.predictions[0].results[0].sequences.sequences[0].token_ids)
    took = time.monotonic() - began
    assert eventually(lambda: told(running, DURATION, "echo", "text_completion")[0] == before[2][0] + 1)
    after = [told(running, name, "echo", "text_completion") for name in names]
    assert [one[0] - other[0] for one, other in zip(after, before, strict=True)] == [1, 1, 1]
    first, other, whole = (one[1] - other[1] for one, other in zip(after, before, strict=True))
    assert tokens > 2 and first > 0 and other > 0
    assert first + (tokens - 1) * other <= whole <= took


def test_a_stream_of_the_open_inference_protocol_counts_each_of_its_requests(running: Running) -> None:
    before, first = (told(running, name, "echo", "text_completion")[0] for name in (DURATION, FIRST))
    requests = [infer_request("echo", {"text": np.array([b"the cat"], object)}) for _ in range(2)]
    list(streamed(running.channel, *requests))
    assert eventually(lambda: told(running, DURATION, "echo", "text_completion")[0] == before + 2)
    assert told(running, FIRST, "echo", "text_completion")[0] == first + 2


def test_the_buckets_are_those_of_the_conventions_and_models_that_nobody_calls_have_none(running: Running) -> None:
    ask(running, "grpc", predict("echo", text("the cat")))
    page = scrape_page(running.server.metrics_port, "text/plain")
    families = {each.name: each for each in text_string_to_metric_families(page)}
    for name, bounds in BUCKETS.items():
        samples = [each for each in families[name].samples if each.labels["gen_ai_request_model"] == "echo"]
        found = {float(each.labels["le"]) for each in samples if each.name.endswith("_bucket")}
        assert sorted(found) == [*bounds, float("inf")]
    assert 'gen_ai_request_model="web"' not in page


def test_a_model_that_is_gone_is_in_no_line(tmp_path: Path) -> None:
    bundles.echo(tmp_path)
    ports = {"metrics_port": free_port()}
    with (
        serving(tmp_path, model_control="explicit", **ports) as running,
        limelight.Client(running.server.address) as client,
    ):
        list(client.generate("echo", {"text": "the cat"}))
        assert 'gen_ai_request_model="echo"' in scrape_page(running.server.metrics_port, "text/plain")
        client.unload_model("echo")
        assert eventually(lambda: 'model="echo"' not in scrape_page(running.server.metrics_port, "text/plain"))
