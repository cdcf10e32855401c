"""A real Prometheus with the files of deploy/ watches a real server: every expression has an answer, and every metric
a place.
"""

import re
import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
import trustme

import limelight
from limelight_service.observability.metrics import Metrics
from limelight_service.security.tokens import entry, new_token
from tests.deploy.expressions import Expression, everything, panels, rules
from tests.deploy.prometheus import Prometheus, filled, numbers, prometheus
from tests.kit.bundles import echo, tiny
from tests.kit.bundles.parts import add_references
from tests.kit.serving import free_port, serving

FILES = ("rules.yml", "alerts.yml")
PATIENCE = 60.0
# Series of other exporters: their expressions are evaluated, but have no answer here.
FOREIGN = re.compile(r"\bDCGM_")
# Metrics that neither a panel nor an alert has, each with the reason.
NOT_DRAWN = {
    "limelight_build_info": "versions, to look up",
    "limelight_taken": "constant while a server runs",
    "process_cpu_seconds_total": "public dashboards have those of processes",
    "process_resident_memory_bytes": "public dashboards have those of processes",
    "process_start_time_seconds": "public dashboards have those of processes",
    "process_open_fds": "public dashboards have those of processes",
    "process_max_fds": "public dashboards have those of processes",
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A server of several processes with TLS and tokens, under load, and the Prometheus that scrapes it."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed")
    folder = tmp_path_factory.mktemp("watched")
    add_references(tiny(folder / "models"))
    echo(folder / "models")
    authority, token = trustme.CA(), new_token()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (folder / "tokens.toml").write_text(entry("site", token, {}))
    settings = {
        "frontends": 1,
        "metrics_port": free_port(),
        "tls_cert": str(folder / "cert.pem"),
        "tls_key": str(folder / "key.pem"),
        "tokens": str(folder / "tokens.toml"),
        "tracing": True,
        "attention_signals": 1.0,
        "response_cache_bytes": 2**20,
    }
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")  # nobody listens
        running = stack.enter_context(serving(folder / "models", **settings))
        watched = stack.enter_context(prometheus(folder, running.server.metrics_port))
        client = stack.enter_context(
            limelight.Client(running.server.address, ca=folder / "ca.pem", token=token, attempts=1)
        )
        stranger = stack.enter_context(limelight.Client(running.server.address, ca=folder / "ca.pem", attempts=1))
        load(client, stranger, watched)
        yield watched


def load(client: limelight.Client, stranger: limelight.Client, watched: Prometheus) -> None:
    """Call well and badly until the last rule has a value from rates, and enough rows were looked at."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for length in range(1, 9):
            client.attend("tiny", [{"text": "the cat"}, {"text": "the cat " * length}])
        list(client.generate("echo", {"text": "the cat"}))
        for caller, name in ((client, "nobody"), (stranger, "tiny")):
            with pytest.raises(limelight.Error):
                caller.predict(name, {"text": "the cat"})
        with suppress(OSError):
            told = [*(rule["record"] for rule in rules("rules.yml")), "limelight_attention_drift"]
            if all(numbers(watched.ask(each)) for each in told):
                return
        time.sleep(0.3)
    raise AssertionError("the rules, or the drift, have no values")


@pytest.mark.parametrize("expression", everything(), ids=lambda each: f"{each.place}: {each.text[:40]}")
def test_an_expression_has_an_answer(expression: Expression, watched: Prometheus) -> None:
    found = watched.ask(filled(expression))
    if not FOREIGN.search(expression.text):
        assert numbers(found), f"{expression.place} is empty: {filled(expression)}"


def test_latencies_have_traces_as_exemplars(watched: Prometheus) -> None:
    now = time.time()
    series = watched.get("query_exemplars", query="grpc_server_handling_seconds_bucket", start=now - 300, end=now)
    found = [exemplar for each in series for exemplar in each["exemplars"]]
    assert found and all(re.fullmatch("[0-9a-f]{32}", each["labels"]["trace_id"]) for each in found)


def test_no_alert_fires_for_a_server_that_answers(watched: Prometheus) -> None:
    firing = watched.ask('ALERTS{alertstate="firing"}')
    assert [each["metric"]["alertname"] for each in firing] == []


def test_every_metric_is_drawn_or_alerted_or_left_out_for_a_reason(watched: Prometheus) -> None:
    with urllib.request.urlopen(watched.page, timeout=5) as response:
        exported = set(re.findall(r"^# TYPE (\w+) ", response.read().decode(), re.MULTILINE))
    assert exported == set(Metrics().snapshot())
    texts = [*(each.text for each in panels()), *(rule["expr"] for name in FILES for rule in rules(name))]
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for text in texts for name in re.findall(r"\w+", text)}
    assert exported - used == set(NOT_DRAWN)
