"""The one path of Predict and Attend, and those of AttendStream and Generate: check, prepare, run, build."""

import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from functools import partial
from operator import itemgetter

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from service.access.quotas import Quotas
from service.attention.options import Options
from service.engine.engine import Engine
from service.engine.model import Model
from service.engine.observer import Rejection, Stage
from service.engine.types import GenerationSettings, Outlook, Query
from service.errors import QueueFullError, WrongModelError
from service.observability.metrics import Metrics
from service.repository import Repository
from service.rpc import build
from service.rpc.budget import Budget, Held, Passing
from service.rpc.call import Call
from service.rpc.preparation import Instances, Preparation
from service.rpc.prepare import (
    CallOptions,
    PreparedInstance,
    check_by_rows,
    check_computed,
    check_count,
    check_sequences,
    check_streamed,
    checked_size,
    prepare,
    prepare_one,
)
from service.rpc.requests import class_count, generation_settings, output_names
from service.rpc.room import Written
from service.rpc.streaming import CHUNK_FRAME, InstanceStream
from service.rpc.view import ModelView
from service.settings import Settings

_Request = (
    service_pb2.PredictRequest
    | service_pb2.AttendRequest
    | service_pb2.AttendStreamRequest
    | service_pb2.GenerateRequest
)
# Handing work to a thread costs about as much as tokenizing a paragraph. Below this size the event loop does it itself,
# well within a millisecond; images, whose bytes do not tell their size, never. Tensors are only copied and looked over.
_INLINE_REQUEST, _INLINE_TENSORS = 1024, 8192
# The same of what is asked of maps: a few selections of a few heads and queries.
_INLINE_OPTIONS = 256
_INLINE_MAPS = 256  # of all instances, each of which is measured
_RETRY_AFTER = 1.0


class Answering:
    """Answers calls with the models of a repository. For one event loop.

    held: the budget of what is computed and of answers, until gRPC has taken them. quotas: of callers' rows.
    """

    def __init__(
        self,
        settings: Settings,
        repository: Repository,
        engine: Engine,
        metrics: Metrics,
        held: Budget,
        quotas: Quotas,
    ) -> None:
        self._settings = settings
        self._repository = repository
        self._engine = engine
        self._metrics = metrics
        self._held = held
        self._quotas = quotas
        self._preparation = Preparation(settings.preprocess_count, engine if engine.has_every_core else None)
        self._preparing: Counter[Model] = Counter()
        self._views: dict[Model, ModelView] = {}

    def close(self) -> None:
        """Prepare no more."""
        self._preparation.close()

    async def forget(self, model: Model) -> None:
        """Let go of a model that nobody asks any more."""
        self._views.pop(model, None)

    async def predict(self, request: service_pb2.PredictRequest, call: Call) -> Written:
        """Answer without attention."""
        view = self._view(request.model, call)
        options = await self._options(view, request, call, request.outputs, request.max_classes)
        check_count(len(request.instances), self._settings.max_instances)
        prepared, size = await self._prepared(view, request.instances, options, "instances[{}]", call)
        return await self._answer(view, prepared, size, options, call)

    async def attend(self, request: service_pb2.AttendRequest, call: Call) -> Written:
        """Answer with the attention behind it."""
        view = self._view(request.model, call)
        options = await self._options(view, request, call, request.outputs, request.max_classes, request.attention)
        check_sequences(view, options)
        check_count(len(request.instances), self._settings.max_instances)
        prepared, size = await self._prepared(view, request.instances, options, "instances[{}]", call)
        return await self._answer(view, prepared, size, options, call)

    async def attend_stream(
        self, request: service_pb2.AttendStreamRequest, call: Call
    ) -> AsyncGenerator[Written, None]:
        """Answer with the attention behind it, chunk by chunk, one instance after the other."""
        view, settings = self._view(request.model, call), self._settings
        options = await self._options(view, request, call, request.outputs, request.max_classes, request.attention)
        options = replace(options, stream_limit=settings.max_stream_bytes or sys.maxsize)
        check_by_rows(options)
        check_count(len(request.instances), settings.max_instances)
        prepared, size = await self._prepared(view, request.instances, options, "instances[{}]", call)
        chunk_bytes = min(settings.chunk_bytes, options.limit) - CHUNK_FRAME
        # Chunks that are computed ahead, each as it is computed and as it is sent, and gRPC's copy of the one before.
        ahead = 2 * (self._engine.chunks_ahead + 1) * chunk_bytes
        with self._held.hold(2 * size + ahead + max(each.computing for each in prepared)):
            for place, one in enumerate(prepared):
                stream = InstanceStream(view, one, place, options, chunk_bytes, call.room)
                (start,) = await self._engine.answer(view.model, _query(view, [one], options, call), stream.begin)
                yield start
                async with aclosing(self._engine.chunks(view.model, stream.chunks(), call.deadline)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                self._took(Stage.ENCODE, stream.nanoseconds, call)
                self._metrics.attention_bytes(call.model, stream.weights)
                yield stream.end()

    async def generate(self, request: service_pb2.GenerateRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer token by token; the limit on an answer's bytes counts the whole stream."""
        view = self._view(request.model, call)
        if not view.model.generates:
            raise WrongModelError(f"{call.model} does not generate; Predict and Attend answer for it")
        attention = request.attention if request.HasField("attention") else None
        options = await self._options(view, request, call, attention=attention)
        check_streamed(view, options)
        prepared, size = await self._prepared(view, [request.instance], options, "instance", call, streams=True)
        query = view.model.seeded(_query(view, prepared, options, call))
        stream = build.Stream(view, prepared[0], query.seeds[0], options)
        with (
            self._held.hold(size + prepared[0].computing),
            self._engine.generate(view.model, query, stream.token, stream.end) as messages,
        ):
            yield stream.start()  # while a lane begins already
            async for message in messages:
                yield message
        self._metrics.attention_bytes(call.model, stream.weights)

    def _view(self, wanted: values_pb2.Model, call: Call) -> ModelView:
        held = ExitStack()
        model = held.enter_context(self._repository.use(wanted.name, wanted.version, sees=call.caller.sees))
        call.when_sent(held.close)
        call.model, call.version = model.name, model.version
        view = self._views.get(model)
        if view is None:
            view = self._views[model] = ModelView(model)
        return view

    async def _options(
        self,
        view: ModelView,
        request: _Request,
        call: Call,
        outputs: Sequence[str] = (),
        max_classes: int = 0,
        attention: attention_pb2.AttentionOptions | None = None,
    ) -> CallOptions:
        """Check what a call asks for; many indices, names or groups are looked at by a thread."""
        size = 0 if attention is None else attention.ByteSize()

        def checked(_: int) -> CallOptions:
            return self._checked(view, request, outputs, max_classes, attention, size > _INLINE_OPTIONS)

        if size <= _INLINE_OPTIONS:
            return checked(0)
        return await self._preparation.run(Instances(CallOptions, 1, size, checked, itemgetter(0), call.deadline))

    def _checked(
        self,
        view: ModelView,
        request: _Request,
        outputs: Sequence[str],
        max_classes: int,
        attention: attention_pb2.AttentionOptions | None,
        is_large: bool,
    ) -> CallOptions:
        generation = GenerationSettings()
        if view.model.generates:
            generation = generation_settings(request.generation, view.max_new_tokens)
        elif request.HasField("generation"):
            raise WrongModelError(f"{view.model.name} does not generate, so generation options do not apply to it")
        limit = self._settings.max_response_bytes
        plan = None
        if attention is not None:
            plan = view.plan(attention)
            limit = min(limit, attention.max_response_bytes or limit)
        return CallOptions(
            outputs=output_names(outputs, view.outputs),
            generation=generation,
            attention=Options() if plan is None else plan.options,
            plan=plan,
            label_names=view.label_names(plan),
            max_classes=class_count(max_classes),
            limit=limit,
            truncate=request.truncate,
            is_large=is_large,
        )

    async def _answer(
        self, view: ModelView, prepared: Sequence[PreparedInstance], size: int, options: CallOptions, call: Call
    ) -> Written:
        """Have the engine answer, and each row framed on the lane that computed it.

        size: bound of the answer's bytes.
        """
        held = self._take(view, prepared, size)
        try:
            gathering = build.Gathering(view, prepared, options, call.room)
            timings = await self._engine.answer(view.model, _query(view, prepared, options, call), gathering.finish)
            data = gathering.take()
        except BaseException:
            held.release()
            raise
        held.shrink(2 * len(data))  # this, and the copy that gRPC makes of it
        call.when_sent(held.release)
        call.took("queue", max(each.queue for each in timings))
        call.took("compute", max(each.compute for each in timings))
        self._took(Stage.ENCODE, gathering.nanoseconds, call)
        if options.plan is not None:
            self._metrics.attention_bytes(call.model, gathering.weights)
        return data

    def _take(self, view: ModelView, prepared: Sequence[PreparedInstance], size: int) -> Held:
        """Hold what a call takes: its answer twice (the rows, then all of them in one piece), and what is computed.

        Raises: QueueFullError where other calls hold too much.
        """
        if view.model.generates:  # what its steps compute is held until its end
            return self._held.take(2 * size + sum(each.computing for each in prepared))
        passing = [Passing(each.computing * view.rows_at_once(each.row), each.computing) for each in prepared]
        return self._held.take(2 * size, passing)

    async def _prepared(
        self,
        view: ModelView,
        instances: Sequence[values_pb2.Instance],
        options: CallOptions,
        field: str,
        call: Call,
        *,
        streams: bool = False,
    ) -> tuple[list[PreparedInstance], int]:
        call.rows = len(instances)
        started = time.perf_counter_ns()
        size = sum(each.ByteSize() for each in instances)
        call.outlook = partial(self._outlook, view.model, size // max(1, len(instances)), streams)
        before = self._preparation.expected_seconds(view.model, size)
        ahead = self._preparing[view.model]
        self._engine.check(view.model, len(instances), ahead, call.deadline, before, streams=streams)
        call.when_sent(self._quotas.take(call.caller, len(instances)))
        maps = 0 if options.plan is None else len(options.plan.selected) * len(instances)
        light = maps <= _INLINE_MAPS and not options.is_large and not options.has_groups
        if light and _is_small(instances, size):
            prepared = prepare(view, instances, options, field)
        else:
            prepared = await self._prepared_elsewhere(view, instances, options, field, size, call)
        check_computed(prepared[0], options, self._held.limit)
        self._took(Stage.PREPROCESS, time.perf_counter_ns() - started, call)
        return prepared

    def _outlook(self, model: Model, size: int, streams: bool) -> Outlook:
        """Expect what a call of one instance of so many bytes would find now."""
        before = self._preparation.expected_seconds(model, size)
        return self._engine.outlook(model, self._preparing[model], before, streams=streams)

    async def _prepared_elsewhere(
        self,
        view: ModelView,
        instances: Sequence[values_pb2.Instance],
        options: CallOptions,
        field: str,
        size: int,
        call: Call,
    ) -> tuple[list[PreparedInstance], int]:
        model, rows = view.model, len(instances)
        if self._preparing.total() + rows > self._settings.queue_rows:
            self._metrics.rejected(Rejection.QUEUE_FULL, rows)
            raise QueueFullError("too many instances wait to be prepared; try again later", retry_after=_RETRY_AFTER)

        def one(place: int) -> PreparedInstance:
            return prepare_one(view, instances[place], options, field.format(place))

        def combine(prepared: list[PreparedInstance]) -> tuple[list[PreparedInstance], int]:
            return prepared, checked_size(view, prepared, options)

        self._preparing[model] += rows
        try:
            return await self._preparation.run(Instances(model, rows, size, one, combine, call.deadline))
        finally:
            self._preparing[model] -= rows
            if not self._preparing[model]:
                del self._preparing[model]

    def _took(self, stage: Stage, nanoseconds: int, call: Call) -> None:
        call.took(stage.value, nanoseconds)
        self._metrics.stage(call.model, stage, nanoseconds / 1e9)


def _query(view: ModelView, prepared: Sequence[PreparedInstance], options: CallOptions, call: Call) -> Query:
    return Query(
        rows=tuple([each.row for each in prepared]),
        maps=options.plan.keys if options.plan is not None else frozenset(),
        parts=tuple([each.parts for each in prepared]),
        seeds=tuple([each.seed for each in prepared]),
        sequences=options.attention.sequences,
        generation=options.generation,
        deadline=call.deadline,
        outputs=view.kept_outputs(options.outputs),
    )


def _is_small(instances: Sequence[values_pb2.Instance], size: int) -> bool:
    """True for instances that are prepared in less time than it takes to hand them to a thread."""
    if size > _INLINE_TENSORS:
        return False
    kinds = {value.WhichOneof("kind") for instance in instances for value in instance.inputs.values()}
    return kinds <= {"tensor"} or (size <= _INLINE_REQUEST and "image" not in kinds)
