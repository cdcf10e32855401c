"""The functions of a server in any protocol: predict, attend, stream maps, generate, list, describe, load, unload.

Protocols translate to the dataclasses of `limelight_service.frontend.calls` and back (`limelight_service.codecs`);
engines compute (`limelight_service.ipc.client`).
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Sized
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from limelight_bundle.rows import Labels
from limelight_service.admission.memory import Held, MemoryBudget, Transient
from limelight_service.errors import WrongModelError
from limelight_service.frontend import validation
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import (
    AnswerEncoder,
    CallRequest,
    CheckedCall,
    Hidden,
    Inference,
    Prediction,
    PreparedInstance,
    Provenance,
    Tokenized,
    WholeServer,
)
from limelight_service.frontend.models import Model, Models
from limelight_service.frontend.preparation import Preparation
from limelight_service.frontend.preprocessing import PreprocessingPool
from limelight_service.frontend.response_cache import ResponseCache
from limelight_service.frontend.results import Answered
from limelight_service.frontend.signals import AttentionSignals
from limelight_service.ipc.boundary import (
    ChunkResult,
    GenerationBegun,
    InferenceRequest,
    MapResult,
    RowResult,
    StreamBegun,
    TokenResult,
)
from limelight_service.ipc.client import as_it_is
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.observer import Stage
from limelight_service.observability.statistics import CallTimes, VersionStatistics, by_version
from limelight_service.observability.traces import Attribute, Trace
from limelight_service.repository.catalogue import VersionStatus, no_version_in_repository
from limelight_service.security.quotas import Quotas
from limelight_service.settings import Settings

T = TypeVar("T")
S = TypeVar("S", bound=Sized)

_SETTLING = 30.0  # seconds until a version that engines have loaded is known here, at most
_CHUNKS_AHEAD = 8  # chunks of a stream that are computed before their reader takes them, at most about
_TOKENIZED = 32  # bytes of label sets for each byte of texts, at most about: a token may be a byte
_ANSWER_THREADS = 2  # that make large answers, which takes the interpreter more than the cores
CHUNK_FRAME = 256  # bytes of a chunk's message beside its arrays


class Core:
    """The functions of a server, over its engines. For one event loop."""

    def __init__(
        self,
        settings: Settings,
        models: Models,
        metrics: Metrics,
        memory: MemoryBudget,
        quotas: Quotas,
        *,
        whole: WholeServer,
        signals: AttentionSignals | None = None,
    ) -> None:
        """Put it together.

        Args:
            memory: of what engines compute for calls, and of answers until they are sent.
            quotas: of callers' rows.
            whole: what concerns other processes of the server too.
            signals: looks at the attention of some calls; None for none.
        """
        self._signals = signals
        kept = settings.response_cache_bytes
        self.cache = ResponseCache(kept, metrics) if kept else None
        self.settings = settings
        self.models = models
        self._metrics = metrics
        self.memory = memory
        self.preparation = Preparation(settings, metrics, quotas, memory.limit)
        self._answering = PreprocessingPool(min(settings.preprocess_count, _ANSWER_THREADS), "answer")
        self.calls = 0  # so far
        self._whole = whole

    def close(self) -> None:
        """Preprocess no more, and make no large answers."""
        self.preparation.pool.close()
        self._answering.close()

    def gone(self, name: str, version: int) -> None:
        """Forget a version that is gone, which no call uses any more."""
        self._metrics.statistics.gone(name, version)
        for each in (self._signals, self.cache):
            if each is not None:
                each.gone(name, version)

    def find(self, name: str, version: int, call: Call) -> Model:
        """Find a model that can answer, and keep it until the call ends: an unload waits for that.

        Raises: as `Catalogue.resolve`.
        """
        model, release = self.models.take(name, version, sees=call.caller.sees)
        call.when_sent(release)
        call.model, call.version = model.schema.name, model.schema.version
        return model

    async def answer(self, request: CallRequest, encoder: AnswerEncoder[S], call: Call) -> S:
        """Answer every instance, with the attention behind it where that is asked for, in the form of a protocol.

        Raises: LimelightError of every kind.
        """
        started = time.perf_counter_ns()
        checked = await self.checked(request, call)
        try:
            if checked.plan is not None:
                validation.check_sequences(checked.schema, checked.wanted.generation, checked.wanted.attention)
            prepared = await self.preparation.prepared(checked, call)
            held = self._hold(checked, prepared)
            try:
                prepared = await self.preparation.intervened(checked, prepared, call)
                parts = await self._parts(checked, prepared, encoder, call)
                before = time.perf_counter_ns()
                inference = Inference(checked, [each.encoded for each in parts])
                data = await self.made(checked, partial(encoder.whole, inference), call)
            except BaseException:
                held.release()
                raise
        except Exception:
            self.count_failed(checked, started)
            raise
        held.keep_only(2 * len(data))  # this, and the transport's copy
        call.when_sent(held.release)
        encoding = time.perf_counter_ns() - before + sum([each.nanoseconds for each in parts])
        self.count_answered(checked, parts, call.durations["preprocess"], encoding, started, call)
        if self._signals is not None:
            place = random.randrange(len(prepared))
            one, seed = prepared[place], parts[place].result.seed
            self._signals.offer(checked.model, one.row, seed, checked.wanted.generation, call.trace)
        return data

    async def _parts(
        self, checked: CheckedCall, prepared: Sequence[PreparedInstance], encoder: AnswerEncoder[Any], call: Call
    ) -> "list[Part]":
        """Have an engine answer, and encode each row's answer where it is: of a large one on threads of this process,
        else on the thread that computed it, or the loop where another process did.
        """

        def encode(place: int, result: RowResult) -> Part:
            began = time.perf_counter_ns()
            encoded = encoder.part(checked, prediction_of(checked, prepared[place], result))
            return Part(encoded, result, time.perf_counter_ns() - began)

        request = _inference(checked, prepared, call)
        engine = checked.model.engine() if self.cache is None else self.cache.engine(checked, call)
        if not checked.is_large:
            return await engine.answer(request, encode)
        results = await engine.answer(request, as_it_is)
        return await self._answering.run(len(results), lambda place: encode(place, results[place]), call.deadline)

    async def stream_maps(
        self, request: CallRequest, call: Call
    ) -> AsyncGenerator[tuple[CheckedCall, int, Prediction, StreamBegun] | ChunkResult | None, None]:
        """Answer one instance after the other: its prediction and what is to come, chunks of its maps, and None at its
        end.
        """
        settings = self.settings
        checked = await self.checked(request, call)
        checked.stream_limit = settings.max_stream_bytes or sys.maxsize
        assert checked.plan is not None
        validation.check_by_rows(checked.wanted.attention)
        prepared = await self.preparation.prepared(checked, call)
        chunk_bytes = min(settings.chunk_bytes, checked.wanted.limit) - CHUNK_FRAME
        # Chunks that are computed ahead, each as it is computed and as it is sent, and the transport's copy.
        ahead = 2 * _CHUNKS_AHEAD * chunk_bytes
        with self.memory.take(2 * checked.size + ahead + max(each.bounds.computing for each in prepared)):
            for place, one in enumerate(await self.preparation.intervened(checked, prepared, call)):
                engine = checked.model.engine()
                async with aclosing(engine.stream(_inference(checked, [one], call), chunk_bytes)) as events:
                    async for event in events:
                        if isinstance(event, StreamBegun):
                            if call.trace is not None:
                                _trace_engine([event.result], call.trace)
                            predicted = await self.made(
                                checked, partial(prediction_of, checked, one, event.result), call
                            )
                            yield checked, place, predicted, event
                        else:
                            self.count_weights(call, event.map)
                            yield event
                yield None

    async def generate(
        self, request: CallRequest, call: Call
    ) -> AsyncGenerator[tuple[CheckedCall, PreparedInstance, GenerationBegun] | TokenResult | Prediction, None]:
        """Generate one instance token by token: what it begins with, tokens, and the whole prediction."""
        started = time.perf_counter_ns()
        checked = await self.checked(request, call, generates=True)
        if checked.plan is not None:
            validation.check_by_tokens(checked.schema, checked.wanted.attention, checked.plan)
        prepared = await self.preparation.prepared(checked, call)
        try:
            with self.memory.take(checked.size + prepared[0].bounds.computing):
                (one,) = await self.preparation.intervened(checked, prepared, call)
                if checked.plan is not None and checked.plan.key_groups:
                    validation.check_groups_to_come(checked.plan, _labels_to_come(checked, one))
                engine = checked.model.engine()
                async with aclosing(engine.generate(_inference(checked, [one], call))) as events:
                    async for event in events:
                        if isinstance(event, GenerationBegun):
                            yield checked, one, event
                        elif isinstance(event, TokenResult):
                            self.count_weights(call, *event.maps)
                            yield event
                        else:
                            part = Part(None, event, 0)
                            self.count_answered(checked, [part], one.nanoseconds, 0, started, call)
                            yield await self.made(checked, partial(prediction_of, checked, one, event), call)
        except Exception:
            self.count_failed(checked, started)
            raise

    async def tokenize(self, request: CallRequest, call: Call) -> list[Tokenized]:
        """Cut the texts of every instance into tokens, without the model.

        Raises: LimelightError of every kind.
        """
        self.calls += 1
        assert isinstance(request.model, str)
        schema = self.find(request.model, request.version, call).schema
        if not schema.preprocessor.has_texts:
            raise WrongModelError(f"{schema.name} reads no text, so it has no tokens")
        validation.check_count(len(request.instances), self.settings.max_instances)
        limit = min(self.settings.max_response_bytes, call.limit or sys.maxsize)
        with self.memory.take(min(limit, _TOKENIZED * request.instances.size)):
            return await self.preparation.tokenized(request, schema, limit, call)

    def list_models(self, call: Call) -> list[VersionStatus[Model]]:
        """Give every version that the caller may know of, those that failed to load too."""
        return [each for each in self.models.catalogue.statuses() if call.caller.sees(each.name)]

    def describe(self, name: str, version: int, call: Call) -> VersionStatus[Model]:
        """Give one version; of one that failed, the reason.

        Raises: ModelNotFoundError, naming what there is.
        """
        status = self.models.catalogue.status(name, version, sees=call.caller.sees)
        call.model, call.version = status.name, status.version
        return status

    async def load(self, name: str, version: int, call: Call) -> VersionStatus[Model]:
        """Load a version of the repository's folder in every engine; gives its status.

        Args:
            version: 0 for the highest that the folder has, which may be there already.

        Raises: ModelNotFoundError where the folder has none; ModelUnavailableError where it is there already.
        """
        call.model, call.version = name, version
        self._check_control()
        if not call.caller.sees(name):
            raise no_version_in_repository(name, version)
        call.version = await self._whole.change_models("load", name, version)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.models.settled(name, call.version), _SETTLING)
        return self.models.catalogue.status(name, call.version)

    async def unload(self, name: str, version: int, call: Call) -> None:
        """Unload a version from every engine, once the calls that use it have ended.

        Raises: ModelNotFoundError; ModelUnavailableError while it is being loaded.
        """
        status = self.models.catalogue.status(name, version, sees=call.caller.sees)
        call.model, call.version = status.name, status.version
        self._check_control()
        await self._whole.change_models("unload", status.name, status.version)

    async def unload_all(self, name: str, call: Call) -> None:
        """Unload every version of a model, as `unload`."""
        call.model = name
        self._check_control()
        self.models.catalogue.status(name, sees=call.caller.sees)
        versions = [each.version for each in self.models.catalogue.statuses() if each.name == name]
        unloading = (self._whole.change_models("unload", name, each) for each in versions)
        await asyncio.gather(*unloading)

    async def statistics(self) -> Mapping[tuple[str, int], VersionStatistics]:
        """Count the calls of each version, by name and version, in every process of the server."""
        return by_version(await self._whole.statistics())

    async def on_thread(self, function: Callable[[], T], call: Call) -> T:
        """Run a function on a preprocessing thread. Raises: what it raises; DeadlineError."""
        return await self.preparation.on_thread(function, call)

    async def made(self, checked: CheckedCall, part: Callable[[], T], call: Call) -> T:
        """Make a part of an answer: of a large one on a thread, fairly between calls.

        Raises: what the part raises; DeadlineError.
        """
        if not checked.is_large:
            return part()
        (made,) = await self._answering.run(1, lambda _: part(), call.deadline)
        return made

    def hold_answer(self, size: int, call: Call) -> None:
        """Hold the transport's copy of an answer until it is sent. Raises: QueueFullError."""
        call.when_sent(self.memory.take(size).release)

    def stage(self, stage: Stage, nanoseconds: int, call: Call) -> None:
        """Note and count the duration of a stage."""
        call.durations[stage] = nanoseconds
        self._metrics.stage(call.model, stage, nanoseconds / 1e9)

    def _check_control(self) -> None:
        """Raise WrongModelError where callers may not load and unload."""
        if self.settings.model_control != "explicit":
            raise WrongModelError(
                f"this server does not load or unload models on request: its model control is "
                f"{self.settings.model_control}; start it with --model-control explicit"
            )

    async def checked(self, request: CallRequest, call: Call, *, generates: bool = False) -> CheckedCall:
        """Find the model, and check the call's options against it."""
        self.calls += 1
        found = request.model
        model = self.find(found, request.version, call) if isinstance(found, str) else found
        schema = model.schema
        if generates and not schema.generates:
            raise WrongModelError(f"{schema.name} does not generate; Predict and Attend answer for it")
        limit, options = min(self.settings.max_response_bytes, call.limit or sys.maxsize), request.options
        if options.is_large:
            wanted = await self.on_thread(partial(validation.check_options, schema, options, limit), call)
        else:
            wanted = model.check(options, limit)
        call.operation = call.operation or schema.operation
        checked = CheckedCall(model, wanted, request)
        validation.check_count(checked.count, self.settings.max_instances)
        return checked

    def _hold(self, checked: CheckedCall, prepared: Sequence[PreparedInstance]) -> Held:
        """Hold the memory of a call: its answer twice (results, then bytes), and what an engine computes.

        Raises: QueueFullError where other calls hold too much.
        """
        bounds, size = [each.bounds for each in prepared], 2 * checked.size
        if checked.schema.generates:  # what its steps compute is held until its end
            return self.memory.take(size + sum(each.computing for each in bounds))
        return self.memory.take(size, [Transient(each.a_worker, each.computing) for each in bounds])

    def count_answered(
        self, checked: CheckedCall, parts: "Sequence[Part]", preprocess: int, encode: int, started: int, call: Call
    ) -> None:
        """Count a call that is answered, and note its times, in nanoseconds: of the row that took longest."""
        results = [each.result for each in parts]
        last = _longest(results).timing
        call.durations["queue"], call.durations["compute"] = last.queue, last.compute
        is_sent = parts[0].encoded is None  # token by token
        if call.trace is not None:
            computed = _trace_engine(results, call.trace)
            if not is_sent:  # other rows may be encoded while this one is computed
                call.traced("encode", min(encode, time.monotonic_ns() - computed))
        for each in results:
            encode += each.reduce_nanoseconds
        if not is_sent:
            self.stage(Stage.ENCODE, encode, call)
        if checked.schema.generates:
            for each in results:
                if each.sequences and (timing := each.timing).first:
                    first = (timing.admitted + timing.first) / 1e9 - call.began
                    tokens = len(each.sequences[0].token_ids)
                    self._metrics.generated(call.model, call.operation, first, timing.others / 1e9, tokens)
        if checked.plan is not None:
            self.count_weights(call, *(each for result in results for each in _maps(result)))
        times = CallTimes(
            total=time.perf_counter_ns() - started,
            queue=last.queue,
            preprocess=preprocess,
            compute=last.compute,
            encode=encode,
            rows=[(each.batch_rows, each.timing.compute) for each in results if not each.cached],
        )
        self._metrics.statistics.answered(checked.schema.name, checked.schema.version, times)

    def count_failed(self, checked: CheckedCall, started: int) -> None:
        """Count a call that gets an error. started: when it began, by `time.perf_counter_ns`."""
        schema, took = checked.schema, time.perf_counter_ns() - started
        self._metrics.statistics.failed(schema.name, schema.version, took)

    def count_weights(self, call: Call, *maps: MapResult) -> None:
        size = sum(each.weights.nbytes for each in maps)
        self._metrics.attention_bytes(call.model, size)


def prediction_of(checked: CheckedCall, prepared: PreparedInstance, result: RowResult) -> Prediction:
    """Make the prediction of an engine's result."""
    made = {each.name: each for each in result.labels}
    labels = {**prepared.row.labels, **made}
    answered = Answered(result.outputs, result.sequences, labels, prepared.instance)
    most, served = checked.wanted.max_classes, checked.schema.served
    return Prediction(
        results={name: builder.build(answered, most) for name, builder in checked.model.builders.items()},
        outputs={name: result.outputs[name] for name in checked.wanted.outputs if name in result.outputs},
        hidden=_hidden(checked, labels, result),
        labels={name: prepared.labels.get(name) or labels[name] for name in checked.wanted.labels},
        axes=labels,
        derived_labels=result.derived_labels,
        truncated=prepared.row.truncated,
        provenance=Provenance(
            model=served.name,
            version=served.version,
            digest=served.digest,
            provider=served.provider,
            graph=result.graph,
            batch_rows=result.batch_rows,
            queue=result.timing.queue,
            compute=result.timing.compute,
            preprocess=prepared.nanoseconds,
        ),
        result=result,
    )


def _hidden(checked: CheckedCall, labels: Mapping[str, Labels], result: RowResult) -> Sequence[Hidden]:
    wanted = checked.wanted.hidden
    if wanted is None:
        return ()
    described = [checked.schema.hidden[name] for name in wanted.names]
    readings = {each.name: each for each in result.readings}
    return [
        Hidden(
            each,
            wanted.places(labels[each.label_set].size, each.label_set),
            result.outputs.get(each.name),
            readings.get(each.name),
        )
        for each in described
    ]


@dataclass(slots=True)
class Part:
    """The answer to one row, encoded. encoded: None where it was sent otherwise. nanoseconds: that encoding took."""

    encoded: Any
    result: RowResult
    nanoseconds: int


def _inference(checked: CheckedCall, prepared: Sequence[PreparedInstance], call: Call) -> InferenceRequest:
    schema, wanted = checked.schema, checked.wanted
    return InferenceRequest(
        model=schema.name,
        version=schema.version,
        rows=tuple([each.row for each in prepared]),
        seeds=tuple([each.seed for each in prepared]),
        outputs=wanted.kept_outputs,
        attention=None if wanted.plan is None else wanted.attention,
        generation=wanted.generation,
        deadline=call.deadline,
        tokens=wanted.tokens,
        steps=schema.steps(prepared[0].row, wanted.generation) if wanted.attention.key_groups else 0,
        hidden=wanted.hidden,
    )


def _labels_to_come(checked: CheckedCall, prepared: PreparedInstance) -> dict[str, Labels]:
    schema, row = checked.schema, prepared.row
    steps = schema.steps(row, checked.wanted.generation)
    return {name: schema.labels_to_come(name, row, steps) for name in schema.growing if name}


def _trace_engine(results: Sequence[RowResult], trace: Trace) -> int:
    """Add the engine's spans to a trace, of the row that was answered last, and return their end (monotonic ns).

    A generation waits and computes in turns; its spans are the sums of both. Of kept results there are none.
    """
    last = _longest(results)
    if last.cached:
        return time.monotonic_ns()
    timing = last.timing
    computed = timing.admitted + timing.queue
    trace.stage("queue", timing.admitted, timing.queue, {})
    made: dict[str, Attribute] = {"limelight.graph": last.graph, "limelight.batch_rows": last.batch_rows}
    trace.stage("compute", computed, timing.compute, made)
    end = computed + timing.compute
    if last.maps:
        trace.stage("reduce", end, last.reduce_nanoseconds, {})
        end += last.reduce_nanoseconds
    return end


def _longest(results: Sequence[RowResult]) -> RowResult:
    """Find the row that was answered last: all of a call are admitted together."""
    if len(results) == 1:
        return results[0]
    return max(results, key=lambda each: each.timing.queue + each.timing.compute)


def _maps(result: RowResult) -> list[MapResult]:
    return [*result.maps, *(each for other in result.other_sequences for each in other.maps)]
