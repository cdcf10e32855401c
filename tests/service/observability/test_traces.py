"""Traces reach a collector as spans of a call and of its stages, whichever process a stage was in."""

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest

from limelight.base.installing import extra
from limelight_bundle.errors import LimelightError
from limelight_service.observability.build import release
from limelight_service.observability.traces import rpc_span
from tests.kit import bundles
from tests.kit.processes import scrape_page
from tests.kit.serving import attend, eventually, free_port, generate, predict, serving, text

trace_pb = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="the extra tracing is not installed"
)

otlp = pytest.importorskip("limelight_service.observability.otlp", reason="the extra tracing is not installed")

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENTED = (("traceparent", f"00-{TRACE}-{PARENT}-01"),)
ROOT = Path(__file__).parents[3]
STAGES = ["preprocess", "queue", "compute", "encode"]


class Collector:
    """Receives OTLP over HTTP. spans: all so far. resources: attributes of those that sent them."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for resource in trace_pb.ExportTraceServiceRequest.FromString(body).resource_spans:
                    collector.resources.append(attributes(resource.resource))
                    collector.spans += [span for scope in resource.scope_spans for span in scope.spans]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def call(self, method: str, status: str = "OK") -> Any:
        """Wait for the span of a call."""
        found: list[Any] = []

        def there() -> bool:
            found[:] = [
                each
                for each in list(self.spans)
                if each.name.endswith((f"/{method}", f":{method.lower()}")) and status in _codes(each)
            ]
            return bool(found)

        assert eventually(there)
        return found[-1]

    def stages(self, call: Any) -> list[Any]:
        """Give the spans below a call's, in their order."""
        return sorted(
            (each for each in self.spans if each.parent_span_id == call.span_id),
            key=lambda each: each.start_time_unix_nano,
        )


def _codes(span: Any) -> set[Any]:
    """How a call ended: by gRPC's name of its code, over HTTP by its status, 200 among others."""
    found = attributes(span)
    code = found.get("http.response.status_code", 0)
    return {found.get("rpc.response.status_code"), code, "OK" if code == 200 else None}


def attributes(holder: Any) -> dict[str, Any]:
    """Give the attributes of a span or a resource."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in holder.attributes}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder, "echo")
    return folder


@pytest.fixture(scope="module", params=[0, 1], ids=["one process", "a frontend and an engine"])
def traced(repository: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Any, Collector]]:
    collector = Collector()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        ports = {"metrics_port": free_port(), "http_port": free_port()}
        with serving(repository, tracing=True, frontends=request.param, **ports) as running:
            yield running, collector
    collector.server.shutdown()


def test_a_call_is_a_span_in_its_callers_trace_with_spans_of_its_stages(traced: tuple[Any, Collector]) -> None:
    running, collector = traced
    before = time.time_ns()
    running.stub.Attend(attend("tiny", text("the cat"), text("the")), metadata=PARENTED)
    call = collector.call("Attend")
    assert (call.trace_id.hex(), call.parent_span_id.hex()) == (TRACE, PARENT)
    assert call.name == "limelight.v1.AttentionService/Attend" and call.kind == call.SPAN_KIND_SERVER
    told = attributes(call)
    assert (told["limelight.model"], told["limelight.version"], told["limelight.rows"]) == ("tiny", 1, 2)
    gen_ai = [told[f"gen_ai.{each}"] for each in ("operation.name", "provider.name", "request.model")]
    assert gen_ai == ["classification", "limelight", "tiny"]
    assert told["rpc.system.name"] == "grpc" and told["rpc.method"] == call.name and "error.type" not in told
    assert len(told["limelight.request_id"]) == 32
    stages = collector.stages(call)
    assert [each.name for each in stages] == ["preprocess", "queue", "compute", "reduce", "encode"]
    assert before < call.start_time_unix_nano <= stages[0].start_time_unix_nano
    assert all(each.start_time_unix_nano <= each.end_time_unix_nano <= call.end_time_unix_nano for each in stages)
    assert all(each.trace_id == call.trace_id for each in stages)
    (compute,) = (each for each in stages if each.name == "compute")
    assert attributes(compute)["limelight.batch_rows"] >= 1
    assert (
        collector.resources[0]
        | {"service.name": "limelight", "service.version": release(), "deployment.environment": "test"}
        == (collector.resources[0])
    )


def test_predictions_and_generations_have_stages_too(traced: tuple[Any, Collector]) -> None:
    running, collector = traced
    running.stub.Predict(predict("tiny", text("the cat")))
    call = collector.call("Predict")
    assert not call.parent_span_id and call.trace_id.hex() != TRACE
    assert [each.name for each in collector.stages(call)] == STAGES
    assert list(running.stub.Generate(generate("echo", text("ab"))))
    stages = [each.name for each in collector.stages(collector.call("Generate"))]
    assert [each for each in stages if each in STAGES] == ["preprocess", "queue", "compute"]


def test_a_call_over_http_is_a_span_in_its_callers_trace(traced: tuple[Any, Collector]) -> None:
    running, collector = traced
    collector.spans.clear()
    body = json.dumps({"instances": [{"inputs": {"text": {"text": "the cat"}}}]}).encode()
    headers = {"content-type": "application/json", **dict(PARENTED)}
    request = urllib.request.Request(f"{running.server.http_url}/v1/models/tiny:predict", body, headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        assert response.status == 200
    call = collector.call("Predict")
    assert (call.trace_id.hex(), call.parent_span_id.hex()) == (TRACE, PARENT)
    assert [each.name for each in collector.stages(call)] == STAGES
    assert call.name == "POST /v1/models/{name}:predict"
    told = attributes(call)
    assert (told["http.request.method"], told["http.route"]) == ("POST", "/v1/models/{name}:predict")
    assert told["http.response.status_code"] == 200 and not any(name.startswith("rpc.") for name in told)


def test_no_text_of_a_caller_is_in_a_span(traced: tuple[Any, Collector]) -> None:
    """Of a caller's trace there are the two numbers and whether it is sampled, over gRPC and HTTP alike."""
    running, collector = traced
    said = (("traceparent", f"00-{TRACE}-{PARENT}-ff"), ("tracestate", "k=SECRET"), ("baggage", "k=SECRET"))
    body = json.dumps({"instances": [{"inputs": {"text": {"text": "the cat"}}}]}).encode()
    headers = {"content-type": "application/json", **dict(said)}
    request = urllib.request.Request(f"{running.server.http_url}/v1/models/tiny:predict", body, headers)
    for send in (
        lambda: running.stub.Predict(predict("tiny", text("the cat")), metadata=said),
        lambda: urllib.request.urlopen(request, timeout=30).close(),
    ):
        collector.spans.clear()
        send()
        spans = [call := collector.call("Predict"), *collector.stages(call)]
        assert len(spans) == 5 and all(not each.trace_state for each in spans)
        assert call.trace_id.hex() == TRACE and b"SECRET" not in b"".join(each.SerializeToString() for each in spans)


def test_a_call_that_fails_has_its_status(traced: tuple[Any, Collector]) -> None:
    running, collector = traced
    with pytest.raises(grpc.RpcError):
        running.stub.Predict(predict("nobody", text("the cat")))
    call = collector.call("Predict", "NOT_FOUND")
    assert "limelight.model" not in attributes(call)
    assert call.status.code == call.status.STATUS_CODE_UNSET  # it is the caller's mistake


def test_a_call_that_its_caller_does_not_sample_sends_nothing(traced: tuple[Any, Collector]) -> None:
    running, collector = traced
    other = "5" * 32
    running.stub.Predict(predict("tiny", text("the")), metadata=[("traceparent", f"00-{other}-{PARENT}-00")])
    running.stub.Attend(attend("tiny", text("the")), metadata=[("traceparent", f"00-{TRACE}-{PARENT}-01")])
    collector.call("Attend")
    time.sleep(0.2)
    assert other not in {each.trace_id.hex() for each in collector.spans}


def test_a_page_in_openmetrics_has_the_trace_as_exemplar(traced: tuple[Any, Collector]) -> None:
    running, _ = traced
    running.stub.Attend(attend("tiny", text("the cat")), metadata=PARENTED)
    page = scrape_page(running.server.metrics_port, "application/openmetrics-text")
    lines = [line for line in page.splitlines() if line.startswith("grpc_server_handling_seconds_bucket")]
    traced_lines = [line for line in lines if f'# {{trace_id="{TRACE}"}}' in line]
    assert any('grpc_method="Attend"' in line and 'grpc_type="unary"' in line for line in traced_lines)
    assert "trace_id" not in scrape_page(running.server.metrics_port, "text/plain")


def test_a_protocol_that_is_not_there_is_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with (
        pytest.raises(LimelightError, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'"),
        serving(repository, tracing=True),
    ):
        pass


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()


EVERY = {"OTEL_EXPORTER_OTLP_PROTOCOL": "", "OTEL_TRACES_SAMPLER": "", "OTEL_BSP_MAX_QUEUE_SIZE": ""}
NOWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(
    ("variables", "parent"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE/", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ""}, PARENT),
        (NOWHERE | {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "HERE/any"}, PARENT),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "HTTP/protobuf"}, PARENT),
        ({"OTEL_PROPAGATORS": ""}, PARENT),
        ({"OTEL_PROPAGATORS": "baggage, TraceContext,nothing"}, PARENT),
        ({"OTEL_PROPAGATORS": "tracecontext,None"}, ""),
        ({"OTEL_PROPAGATORS": "baggage"}, ""),
        ({"OTEL_TRACES_EXPORTER": "OTLP", "OTEL_SDK_DISABLED": "no"}, PARENT),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "20000"}, PARENT),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, PARENT),
    ],
)
def test_variables_count_as_their_specification_has_it(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], parent: str
) -> None:
    """The one for traces before that for all, the empty one not at all, words in any capitals."""
    collector.spans.clear()
    for name, value in (EVERY | {"OTEL_EXPORTER_OTLP_ENDPOINT": "HERE"} | variables).items():
        monkeypatch.setenv(name, value.replace("HERE", collector.address))
    assert otlp.is_on()
    tracer = otlp.OtlpTracer()
    tracer.begin(rpc_span("a.Service", "Method"), PARENTED).end("OK", {})
    tracer.close()
    assert collector.call("Method").parent_span_id.hex() == parent


@pytest.mark.parametrize(
    ("variable", "value", "on"),
    [
        ("OTEL_SDK_DISABLED", "TRUE", False),
        ("OTEL_SDK_DISABLED", " ", True),
        ("OTEL_SDK_DISABLED", "1", True),
        ("OTEL_TRACES_EXPORTER", "None", False),
        ("OTEL_TRACES_EXPORTER", "", True),
    ],
)
def test_tracing_is_turned_off_by_variables(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, on: bool
) -> None:
    monkeypatch.setenv(variable, value)
    assert otlp.is_on() is on


def test_a_timeout_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that does not answer holds the end for as long as it says."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
        tracer = otlp.OtlpTracer()
        tracer.begin(rpc_span("a.Service", "Method"), ()).end("OK", {})
        closing = threading.Thread(target=tracer.close, daemon=True)
        closing.start()
        closing.join(30)  # 200 seconds otherwise
        assert not closing.is_alive()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "otlp,zipkin"}, "OTEL_TRACES_EXPORTER has 'zipkin'; traces are sent by otlp"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "10"}, "the OTEL_[*] variables cannot be used for traces: "),
        ({"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "x"}, "the OTEL_[*] variables cannot be used for traces: "),
    ],
)
def test_variables_that_cannot_be_used_are_named(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LimelightError, match=message):
        assert otlp.is_on() and otlp.OtlpTracer()


def test_a_missing_package_is_named_with_its_extra(repository: Path) -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from pathlib import Path\n"
        "from tests.kit.serving import serving\n"
        "try:\n"
        f"    with serving(Path({str(repository)!r}), tracing=True): pass\n"
        "except Exception as error: print(error)\n"
        f"with serving(Path({str(repository)!r})): print('serves without')"
    )
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert f"tracing needs opentelemetry, which is not installed: {extra('tracing')}" in found.stdout, found.stderr
    assert "serves without" in found.stdout


@contextmanager
def unreachable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
        yield


def test_a_collector_that_is_not_there_stops_neither_calls_nor_the_end(repository: Path) -> None:
    with unreachable():
        with serving(repository, tracing=True) as running:
            running.stub.Predict(predict("tiny", text("the cat")))
            stopping = time.monotonic()
        assert time.monotonic() - stopping < 10
        # What could not be sent is given up a little later, which the log says: in no other test's.
        assert eventually(lambda: not any(each.name == "traces" for each in threading.enumerate()))


def test_a_traced_call_that_is_looked_at_has_the_signals_as_attributes(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with serving(repository, tracing=True, attention_signals=1.0) as running:
        running.stub.Predict(predict("tiny", text("the cat")))
        assert eventually(lambda: any(each.name == "attention" for each in collector.spans))
    call = collector.call("Predict")
    (looked,) = (each for each in collector.stages(call) if each.name == "attention")
    told = attributes(looked)
    assert 0 < told["limelight.attention.encoder.0.self.entropy"] <= 1
    assert {name.rsplit(".", 1)[1] for name in told} == {"entropy", "largest", "distance"}
