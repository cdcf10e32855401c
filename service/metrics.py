"""Prometheus metrics: calls, stages, batches, queues and models. No label is one that a caller can invent."""

import os
from collections.abc import Iterable
from wsgiref.simple_server import WSGIServer

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector

from bundle.errors import LimelightError
from service.engine.observer import Rejection, Stage

SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"


class MethodMetrics:
    """The metrics of one gRPC method, their children looked up once."""

    def __init__(self, metrics: "Metrics", kind: str, service: str, method: str) -> None:
        labels = (kind, service, method)
        self._started = metrics.started.labels(*labels)
        self._handled = {code: metrics.handled.labels(*labels, code.name) for code in grpc.StatusCode}
        self._seconds = metrics.handling.labels(*labels)

    def begin(self) -> None:
        """Count a call that arrived."""
        self._started.inc()

    def end(self, code: grpc.StatusCode, seconds: float) -> None:
        """Count a call that was answered."""
        self._handled[code].inc()
        self._seconds.observe(seconds)


class Metrics:
    """Everything that is counted; also the engine's observer. Safe to use from several threads.

    Each instance has a registry of its own. With `PROMETHEUS_MULTIPROC_DIR` set, what is served sums up all processes
    that share that folder.
    """

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        call = ("grpc_type", "grpc_service", "grpc_method")
        self.started = Counter("grpc_server_started_total", "Calls that arrived.", call, registry=own)
        self.handled = Counter("grpc_server_handled_total", "Calls answered.", (*call, "grpc_code"), registry=own)
        self.handling = Histogram(
            "grpc_server_handling_seconds", "Time to answer a call.", call, buckets=SECONDS, registry=own
        )
        self._stages = Histogram(
            "limelight_stage_duration_seconds",
            "Time in a stage: preprocess, queue (each row), batch and compute (each batch), encode.",
            ("model", "stage"),
            buckets=SECONDS,
            registry=own,
        )
        self._rows = Histogram("limelight_batch_rows", "Rows in a batch.", ("model",), buckets=ROWS, registry=own)
        self._tokens = Counter(
            "limelight_tokens_total", "Places in batches: real, or padding.", ("model", "kind"), registry=own
        )
        self._queue = Gauge(
            "limelight_queue_depth", "Rows that wait.", ("model",), registry=own, multiprocess_mode="livesum"
        )
        self._in_flight = Gauge(
            "limelight_inflight_requests", "Calls in the engine.", ("model",), registry=own, multiprocess_mode="livesum"
        )
        self._rejected = Counter("limelight_rejected_total", "Rows not answered.", ("reason",), registry=own)
        self._bytes = Counter("limelight_attention_bytes_total", "Bytes of weights sent.", ("model",), registry=own)
        self._ready = Gauge(
            "limelight_model_ready",
            "1 for a version that answers, 0 for one that was refused.",
            ("model", "version"),
            registry=own,
            multiprocess_mode="min",
        )
        self._info = Gauge(
            "limelight_model_info",
            "1 for each version that answers.",
            ("model", "version", "digest", "provider"),
            registry=own,
            multiprocess_mode="max",
        )
        for reason in Rejection:
            self._rejected.labels(reason.value)
        # `labels` takes a lock and a tuple of strings each time; these are on the path of every request.
        self._stage_of: dict[tuple[str, Stage], Histogram] = {}
        self._batch_of: dict[str, tuple[Histogram, Counter, Counter]] = {}

    def methods(self, kind: str, service: str, names: Iterable[str]) -> dict[str, MethodMetrics]:
        """Create the metrics of methods, at zero for every code."""
        return {name: MethodMetrics(self, kind, service, name) for name in names}

    def stage(self, model: str, stage: Stage, seconds: float) -> None:
        """A stage took so many seconds."""
        child = self._stage_of.get((model, stage))
        if child is None:
            child = self._stage_of[model, stage] = self._stages.labels(model, stage.value)
        child.observe(seconds)

    def batch(self, model: str, rows: int, real_tokens: int, padding_tokens: int) -> None:
        """A batch is about to run."""
        children = self._batch_of.get(model)
        if children is None:
            tokens = self._tokens
            children = (self._rows.labels(model), tokens.labels(model, "real"), tokens.labels(model, "padding"))
            self._batch_of[model] = children
        children[0].observe(rows)
        children[1].inc(real_tokens)
        children[2].inc(padding_tokens)

    def queued(self, model: str, change: int) -> None:
        """So many rows more, or fewer, wait."""
        self._queue.labels(model).inc(change)

    def in_flight(self, model: str, change: int) -> None:
        """A call began (1) or ended (-1)."""
        self._in_flight.labels(model).inc(change)

    def rejected(self, reason: Rejection, rows: int) -> None:
        """So many rows will not be answered."""
        self._rejected.labels(reason.value).inc(rows)

    def attention_bytes(self, model: str, count: int) -> None:
        """So many bytes of weights were sent."""
        self._bytes.labels(model).inc(count)

    def model(self, name: str, version: int, *, ready: bool, digest: str, provider: str) -> None:
        """A version of a model was loaded or refused."""
        self._ready.labels(name, str(version)).set(int(ready))
        if ready:
            self._info.labels(name, str(version), digest, provider).set(1)
            for stage in Stage:
                self._stages.labels(name, stage.value)
            self._queue.labels(name)
            self._in_flight.labels(name)

    def exposed(self) -> CollectorRegistry:
        """Give the registry to serve: this process's own, or the sum of all."""
        if _MULTIPROCESS not in os.environ:
            return self.registry
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return registry


class MetricsServer:
    """Serves metrics over HTTP under /metrics, on a thread of its own.

    Raises: LimelightError where it cannot listen there.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        self._server: WSGIServer
        try:
            self._server, self._thread = start_http_server(port, host, metrics.exposed())
        except (OSError, OverflowError) as error:
            raise LimelightError(f"metrics cannot be served on {host}:{port}: {_reason(error)}") from error
        self.port: int = self._server.server_port

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "the address cannot be used"
