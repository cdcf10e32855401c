"""A real Prometheus with the files of deploy/ watches a real server: every expression has an answer, and every metric
a place.
"""

import json
import math
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

import limelight
from service.observability.metrics import Metrics
from service.security.tokens import entry, new_token
from tests.deploy.expressions import PROMETHEUS, Expression, everything, panels, rules
from tests.service.bundles import tiny
from tests.service.serving import free_port, serving

FILES = ("rules.yml", "alerts.yml")
PATIENCE = 60.0
# Series of other exporters: their expressions are evaluated, but have no answer here.
FOREIGN = re.compile(r"\bDCGM_")
# Metrics that neither a panel nor an alert has, each with the reason.
NOT_DRAWN: dict[str, str] = {}


@dataclass(frozen=True)
class Watched:
    """A Prometheus, and the page of metrics that it scrapes."""

    address: str
    page: str

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """Evaluate an expression now; gives its series."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://{self.address}/api/v1/query?{query}", timeout=5) as response:
            answer = json.load(response)
        assert answer["status"] == "success"
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A server of several processes with TLS and tokens, under load, and the Prometheus that scrapes it."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed")
    folder = tmp_path_factory.mktemp("watched")
    tiny(folder / "models")
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
    }
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")  # nobody listens
        running = stack.enter_context(serving(folder / "models", **settings))
        page = f"127.0.0.1:{running.server.metrics_port}"
        address = f"127.0.0.1:{free_port()}"
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={configuration(folder, page)}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
                "--enable-feature=exemplar-storage",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        watched = Watched(address, f"http://{page}/metrics")
        client = stack.enter_context(
            limelight.Client(running.server.address, ca=folder / "ca.pem", token=token, attempts=1)
        )
        stranger = stack.enter_context(limelight.Client(running.server.address, ca=folder / "ca.pem", attempts=1))
        load(client, stranger, watched)
        yield watched


def configuration(folder: Path, page: str) -> Path:
    """Write the configuration of deploy/ for this machine, and for a test's patience."""
    content = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))
    content["global"] = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}
    content["rule_files"] = [str(PROMETHEUS / each) for each in content["rule_files"]]
    content["scrape_configs"][0]["static_configs"] = [{"targets": [page]}]
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def load(client: limelight.Client, stranger: limelight.Client, watched: Watched) -> None:
    """Call well and badly until the last rule has a value from rates."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for length in range(1, 9):
            client.attend("tiny", [{"text": "the cat"}, {"text": "the cat " * length}])
        for caller, name in ((client, "nobody"), (stranger, "tiny")):
            with pytest.raises(limelight.Error):
                caller.predict(name, {"text": "the cat"})
        with suppress(OSError):
            if all(numbers(watched.ask(rule["record"])) for rule in rules("rules.yml")):
                return
        time.sleep(0.3)
    raise AssertionError("the rules have no values")


def numbers(series: list[dict[str, Any]]) -> list[float]:
    """Give the values of series that are numbers."""
    found = (float(each["value"][1]) for each in series)
    return [each for each in found if not math.isnan(each)]


def filled(expression: Expression) -> str:
    """Give an expression with the values of the dashboard's variables."""
    return expression.text.replace("$__rate_interval", "30s").replace("$model", ".*")


@pytest.mark.parametrize("expression", everything(), ids=lambda each: f"{each.place}: {each.text[:40]}")
def test_an_expression_has_an_answer(expression: Expression, watched: Watched) -> None:
    found = watched.ask(filled(expression))
    if not FOREIGN.search(expression.text):
        assert numbers(found), f"{expression.place} is empty: {filled(expression)}"


def test_latencies_have_traces_as_exemplars(watched: Watched) -> None:
    now = time.time()
    query = {"query": "grpc_server_handling_seconds_bucket", "start": now - 300, "end": now}
    url = f"http://{watched.address}/api/v1/query_exemplars?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=5) as response:
        found = [exemplar for series in json.load(response)["data"] for exemplar in series["exemplars"]]
    assert found and all(re.fullmatch("[0-9a-f]{32}", each["labels"]["trace_id"]) for each in found)


def test_no_alert_fires_for_a_server_that_answers(watched: Watched) -> None:
    firing = watched.ask('ALERTS{alertstate="firing"}')
    assert [each["metric"]["alertname"] for each in firing] == []


def test_every_metric_is_drawn_or_alerted_or_left_out_for_a_reason(watched: Watched) -> None:
    with urllib.request.urlopen(watched.page, timeout=5) as response:
        exported = set(re.findall(r"^# TYPE (\w+) ", response.read().decode(), re.MULTILINE))
    assert exported == set(Metrics().snapshot())
    texts = [*(each.text for each in panels()), *(rule["expr"] for name in FILES for rule in rules(name))]
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for text in texts for name in re.findall(r"\w+", text)}
    assert exported - used == set(NOT_DRAWN)
