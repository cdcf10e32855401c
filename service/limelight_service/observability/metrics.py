"""The metrics of a process: calls, stages, batches, queues and models. No label is one that a caller can invent."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from limelight_service.observability.counters import Distribution, Join, Number, Registry, Snapshot
from limelight_service.observability.observer import Depths, Rejection, Stage, WorkDone
from limelight_service.observability.saturation import CAPACITY, SATURATION, WORK, Part, thread_clock
from limelight_service.observability.statistics import Statistics
from limelight_service.platform import usage

SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# The buckets of OpenTelemetry's semantic conventions for generative AI, as of their 0.1 (status: development).
REQUEST_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
FIRST_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
PROVIDER = "limelight"
_GEN_AI_MODEL = "gen_ai_request_model"

MODEL_READY = "limelight_model_ready"
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

UNAUTHENTICATED = ("missing", "malformed", "unknown", "expired")  # why a token is not good

# Names of gRPC's status codes by their numbers, which public dashboards know; engines count without grpc.
CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


class MethodMetrics:
    """The metrics of one gRPC method, their children looked up once. For one event loop.

    Calls that arrived are there at zero; what is counted of their ends is there, at zero for every code, from the first
    call on: of 35 methods that nobody calls it would be nine tenths of the page.
    """

    def __init__(self, metrics: "Metrics", kind: str, service: str, method: str) -> None:
        labels = (kind, service, method)
        self._started = metrics.started.child(*labels)
        self._code = partial(metrics.handled.child, *labels)
        self._timed = partial(metrics.handling.child, *labels)
        self._handled: dict[str, Number] = {}
        self._seconds: dict[str, Distribution] = {}

    def begin(self) -> None:
        """Count a call that arrived."""
        if not self._handled:
            self._handled = {code: self._code(code) for code in CODES}
            self._seconds["OK"] = self._timed("OK")
        self._started.value += 1

    def end(self, code: str, seconds: float, trace: str = "") -> None:
        """Count a call that was answered. code: its name. trace: number of its trace; empty without one."""
        self._handled[code].value += 1
        if code not in self._seconds:
            self._seconds[code] = self._timed(code)
        self._seconds[code].observe(seconds, trace)


class Metrics:
    """Everything that is counted; also the engine's observer. Safe to use from several threads.

    statistics: counts that are no part of the page.

    A model has its histograms from its first call on: five stages of 19 lines each, for every model that was loaded and
    never asked, would be most of the page.
    """

    def __init__(self, cores: int = 0) -> None:
        """Begin at zero. cores: that all processes of the server may use together; 0 where another process says so."""
        self.statistics = Statistics()
        self._depths: list[Depths] = []
        self._workers: list[Callable[[], WorkDone]] = []
        self._clocks: dict[Part, Callable[[], float]] = {}
        self._registry = own = Registry()
        call = ("grpc_type", "grpc_service", "grpc_method")
        self.started = own.counter("grpc_server_started_total", "Calls that arrived.", call)
        self.handled = own.counter("grpc_server_handled_total", "Calls answered.", (*call, "grpc_code"))
        # By the code too: refusals are quick, and would hide how long answers take.
        self.handling = own.histogram(
            "grpc_server_handling_seconds", "Time to answer a call.", (*call, "grpc_code"), SECONDS
        )
        self._stages = own.histogram(
            "limelight_stage_duration_seconds",
            "Time in a stage: preprocess, queue (each row), batch and compute (each batch), encode.",
            ("model", "stage"),
            SECONDS,
        )
        self._rows = own.histogram("limelight_batch_rows", "Rows in a batch.", ("model",), ROWS)
        self._tokens = own.counter("limelight_tokens_total", "Places in batches: real, or padding.", ("model", "kind"))
        self._queue = own.gauge("limelight_queue_depth", "Rows that wait.", ("model",))
        self._in_flight = own.gauge("limelight_inflight_requests", "Calls in the engine.", ("model",))
        # The value is worked out from all processes together, when they are read.
        own.gauge(SATURATION, "Rows that arrive, by what can be answered: 1 is full, 2 twice as much.", ()).child()
        self._work = own.counter(WORK, "Seconds of work, and of workers for want of full batches.", ("part",))
        self._capacity = own.gauge(CAPACITY, "Seconds of work a second that a part of the server can do.", ("part",))
        self._backlog = own.gauge("limelight_backlog_seconds", "Seconds of a worker that waiting rows need.", ())
        self._rejected = own.counter("limelight_rejected_total", "Rows not answered.", ("reason",))
        self._bytes = own.counter("limelight_attention_bytes_total", "Bytes of weights sent.", ("model",))
        self._cache = own.counter(
            "limelight_cache_total", "Rows whose answer was kept (hit), or was not (miss).", ("model", "result")
        )
        self._cache_bytes = own.gauge("limelight_cache_bytes", "Bytes of answers that are kept.", ())
        self._cache_evictions = own.counter("limelight_cache_evictions_total", "Answers that made room for others.", ())
        gen_ai = ("gen_ai_operation_name", "gen_ai_provider_name", _GEN_AI_MODEL)
        self._requests = own.histogram(
            "gen_ai_server_request_duration_seconds",
            "Time of a request for a model; error.type is the code of one that failed.",
            (*gen_ai, "error_type"),
            REQUEST_SECONDS,
        )
        self._first = own.histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "Time until the first token of a sequence was generated.",
            gen_ai,
            FIRST_SECONDS,
        )
        self._others = own.histogram(
            "gen_ai_server_time_per_output_token_seconds",
            "Time of each token after the first.",
            gen_ai,
            TOKEN_SECONDS,
        )
        self._signals = own.histogram(
            "limelight_attention_signal",
            "Numbers of sampled maps, from 0 to 1, for each head and query: entropy, special, largest, distance.",
            ("model", "map", "signal"),
            [each / 10 for each in range(1, 11)],
        )
        self._drift = own.gauge(
            "limelight_attention_drift",
            "How far a map's signals are from the bundle's reference; ordinary inputs stay below 1.",
            ("model", "map"),
            Join.MAX,
        )
        self._overruns = own.counter("limelight_runs_ended_total", "Runs ended for taking too long.", ("model",))
        self._not_finite = own.counter(
            "limelight_rows_not_finite_total",
            "Rows that got an error, since the model put out NaN or infinity for them.",
            ("model",),
        )
        self._ready = own.gauge(
            MODEL_READY,
            "1 for a version that answers, 0 for one that was refused.",
            ("model", "version"),
            Join.MIN,
        )
        self._info = own.gauge(
            "limelight_model_info",
            "1 for each version that answers.",
            ("model", "version", "digest", "provider"),
            Join.MAX,
        )
        self._dropped = own.counter(
            "limelight_log_lines_dropped_total", "Lines of the log that were dropped, since nobody read it.", ()
        )
        self._dropped.child()
        self._processes = own.gauge(
            "limelight_processes", "Processes that are ready, where there are several.", ("role",)
        )
        self._process_ends = own.counter("limelight_process_ends_total", "Processes that ended unasked.", ("role",))
        self._token_calls = own.counter(
            "limelight_token_calls_total", "Calls answered, by the token's name.", ("token", "grpc_code")
        )
        self._token_rows = own.counter("limelight_token_rows_total", "Rows begun.", ("token",))
        self._token_in_flight = own.gauge("limelight_token_inflight_rows", "Rows in flight.", ("token",))
        self._unauthenticated = own.counter(
            "limelight_unauthenticated_total", "Calls without a good token.", ("reason",)
        )
        self._reloads = own.counter(
            "limelight_reloads_total",
            "Files read again, new: good ones, and bad ones that count for nothing.",
            ("what", "result"),
        )
        self._expiry = own.gauge(
            "limelight_certificate_expiry_seconds",
            "When the server's certificate ends, in seconds since 1970.",
            (),
            Join.MIN,
        )
        self._build = own.gauge(
            "limelight_build_info",
            "1, with the versions of the server and of what it runs on.",
            ("version", "python", "onnxruntime", "grpc"),
            Join.MAX,
        )
        self._taken = own.gauge(
            "limelight_taken", "Cores, bytes of memory and limits that the server works with.", ("what",), Join.MAX
        )
        self._usage = {
            usage.CPU: own.counter(usage.CPU, "Processor time of all processes, in seconds.", ()),
            usage.MEMORY: own.gauge(usage.MEMORY, "Memory of all processes; shared pages count in each.", ()),
            usage.STARTED: own.gauge(usage.STARTED, "Start of the first process, since 1970.", (), Join.MIN),
            usage.OPEN: own.gauge(usage.OPEN, "Descriptors of the process with most.", (), Join.MAX),
            usage.MOST_OPEN: own.gauge(usage.MOST_OPEN, "Descriptors that a process may have.", (), Join.MIN),
        }
        for reason in Rejection:
            self._rejected.child(reason.value)
        self._add_clock(Part.CORES, time.process_time, cores)

    def loop(self, part: Part) -> None:
        """Count the time of the calling thread, whose event loop has a part."""
        self._add_clock(part, thread_clock(), 1)

    def _add_clock(self, part: Part, clock: Callable[[], float], capacity: int) -> None:
        began = clock()
        self._clocks[part] = lambda: clock() - began
        self._capacity.child(part).set(capacity)

    def methods(self, kind: str, service: str, names: Iterable[str]) -> dict[str, MethodMetrics]:
        """Create the metrics of methods."""
        return {name: MethodMetrics(self, kind, service, name) for name in names}

    def stage(self, model: str, stage: Stage, seconds: float) -> None:
        """A stage took so many seconds."""
        self._stages.child(model, stage).observe(seconds)

    def batch(self, model: str, rows: int, real_tokens: int, padding_tokens: int) -> None:
        """A batch is about to run."""
        self._rows.child(model).observe(rows)
        self._tokens.child(model, "real").add(real_tokens)
        self._tokens.child(model, "padding").add(padding_tokens)

    def watch(self, depths: Depths, work: Callable[[], WorkDone]) -> None:
        """Read the depths of queues, and the work of workers, with everything else."""
        self._depths.append(depths)
        self._workers.append(work)

    def rejected(self, reason: Rejection, rows: int) -> None:
        """So many rows will not be answered."""
        self._rejected.child(reason).add(rows)

    def attention_bytes(self, model: str, count: int) -> None:
        """So many bytes of weights were sent."""
        self._bytes.child(model).add(count)

    def request(self, model: str, operation: str, code: str, seconds: float) -> None:
        """A request for a model ended. operation: by the conventions for generative AI. code: its name."""
        error = "" if code == "OK" else code
        self._requests.child(operation, PROVIDER, model, error).observe(seconds)

    def generated(self, model: str, operation: str, first: float, others: float, tokens: int) -> None:
        """A sequence of so many tokens was generated. first, others: seconds from the request's arrival to its first
        token, and from there to its last.
        """
        self._first.child(operation, PROVIDER, model).observe(first)
        if tokens > 1:
            self._others.child(operation, PROVIDER, model).observe(others / (tokens - 1))

    def cache_asked(self, model: str, version: int, hits: int, misses: int, *, looking: int, keeping: int) -> None:
        """Rows of a call were looked up among the answers that are kept. looking, keeping: nanoseconds that it took to
        find them, and to keep those that were not there.
        """
        self._cache.child(model, "hit").add(hits)
        self._cache.child(model, "miss").add(misses)
        self.statistics.cache_asked(model, version, hits, misses, looking=looking, keeping=keeping)

    def cache_size(self, size: int, *, evicted: int) -> None:
        """So many bytes of answers are kept; so many answers made room."""
        self._cache_bytes.child().set(size)
        self._cache_evictions.child().add(evicted)

    def attention_signal(self, model: str, name: str, signal: str, counts: list[float], total: float) -> None:
        """A signal of a map was computed. counts: of values in ten bins from 0 to 1. total: their sum."""
        self._signals.child(model, name, signal).add(counts, total)

    def attention_drift(self, model: str, name: str, index: float) -> None:
        """A map's signals differ so much from those of the bundle's reference inputs; chance does up to 1."""
        self._drift.child(model, name).set(index)

    def attention_gone(self, model: str) -> None:
        """No version of a model is watched any more."""
        for family in (self._signals, self._drift):
            family.remove(model=model)

    def overran(self, model: str) -> None:
        """A run was ended."""
        self._overruns.child(model).add()

    def not_finite(self, model: str) -> None:
        """A row got an error for what the model put out."""
        self._not_finite.child(model).add()

    def model(self, name: str, version: int, *, ready: bool, digest: str, provider: str) -> None:
        """A version of a model was loaded or refused."""
        self._ready.child(name, str(version)).set(int(ready))
        if ready:
            self._info.child(name, str(version), digest, provider).set(1)
            # A counter that first appears at one is no increase to Prometheus.
            for family in (self._queue, self._in_flight, self._bytes, self._overruns, self._not_finite):
                family.child(name)

    def gone(self, name: str, version: int, *, last: bool) -> None:
        """A version of a model is no longer there; last: nor is any other of its name."""
        if last:
            self._registry.remove(model=name)
            self._registry.remove(**{_GEN_AI_MODEL: name})
        else:
            self._registry.remove(model=name, version=str(version))
        self.statistics.gone(name, version)

    def token_call(self, token: str, code: str) -> None:
        """A call with a token, by its name, was answered."""
        self._token_calls.child(token, code).add()

    def token_rows(self, token: str, rows: int) -> None:
        """So many rows of a token began."""
        self._token_rows.child(token).add(rows)
        self._token_in_flight.child(token).add(rows)

    def token_rows_ended(self, token: str, rows: int) -> None:
        """So many rows of a token ended."""
        self._token_in_flight.child(token).add(-rows)

    def token_gone(self, token: str) -> None:
        """A token is no longer there."""
        self._registry.remove(token=token)

    def tokens_needed(self) -> None:
        """Calls without a good token are refused from now on."""
        for reason in UNAUTHENTICATED:
            self._unauthenticated.child(reason)

    def unauthenticated(self, reason: str) -> None:
        """A call came without a good token; reason: one of a few."""
        self._unauthenticated.child(reason).add()

    def reloads(self, what: str) -> None:
        """Something is read from files and may be read again."""
        for result in ("ok", "failed"):
            self._reloads.child(what, result)

    def reloaded(self, what: str, *, ok: bool) -> None:
        """Files changed and were read again; not ok: they are no good, and what was read before still counts."""
        self._reloads.child(what, "ok" if ok else "failed").add()

    def certificate(self, expires: float) -> None:
        """A certificate is used that ends then."""
        self._expiry.child().set(expires)

    def log_line_dropped(self, lines: float = 1) -> None:
        """So many lines of the log were dropped."""
        self._dropped.child().add(lines)

    def build(self, version: str, python: str, onnxruntime: str, grpc: str) -> None:
        """The server has these versions."""
        self._build.child(version, python, onnxruntime, grpc).set(1)

    def taken(self, amounts: Mapping[str, int]) -> None:
        """The server works with so many cores, bytes and so on."""
        for what, amount in amounts.items():
            self._taken.child(what).set(amount)

    def processes(self, role: str, ready: int) -> None:
        """So many processes of a role are ready now."""
        self._processes.child(role).set(ready)
        self._process_ends.child(role)

    def process_ended(self, role: str) -> None:
        """A process ended unasked."""
        self._process_ends.child(role).add()

    def snapshot(self) -> Snapshot:
        """Read everything, as plain data."""
        for family in (self._queue, self._in_flight) if self._depths else ():
            family.zero()
        for depths in self._depths:
            for model, (waiting, calls) in depths().items():
                self._queue.child(model).set(waiting)
                self._in_flight.child(model).set(calls)
        for part, clock in self._clocks.items():
            self._work.child(part).set(clock())
        done = [work() for work in self._workers]
        self._work.child(Part.WORKERS).set(sum(each.busy for each in done))
        self._work.child(Part.UNFILLED).set(sum(each.unfilled for each in done))
        self._capacity.child(Part.WORKERS).set(sum(each.workers for each in done))
        self._backlog.child().set(sum(each.waiting for each in done))
        for name, value in usage.process_usage().items():
            self._usage[name].child().set(value)
        return self._registry.snapshot()
