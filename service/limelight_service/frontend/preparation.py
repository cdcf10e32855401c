"""From a checked call to rows for an engine: instances preprocessed and measured, on the loop or on threads."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from limelight_bundle.errors import InputError, TooLargeError
from limelight_bundle.wire import input_path
from limelight_service.attention.members import check_prompt
from limelight_service.attention.plan import check_instance
from limelight_service.errors import QueueFullError
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest, CheckedCall, InstanceSource, PreparedInstance, Tokenized
from limelight_service.frontend.interventions import given_bytes, intervened_bytes, with_interventions
from limelight_service.frontend.lateness import check_in_time
from limelight_service.frontend.preprocessing import PreprocessingPool
from limelight_service.frontend.schema import ModelSchema
from limelight_service.frontend.sizes import Measured, check_computed, check_given
from limelight_service.ipc.boundary import WaitEstimate
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.observer import Rejection, Stage
from limelight_service.security.quotas import Quotas
from limelight_service.settings import Settings

T = TypeVar("T")

# Handing work to a thread costs about as much as tokenizing a paragraph. Below these sizes the event loop does it
# itself, well within a millisecond; images never, whose bytes do not tell their size.
_INLINE_REQUEST, _INLINE_TENSORS = 1024, 8192
_INLINE_MAPS = 256  # of all instances, each of which is measured
_INLINE_RESULTS = 512  # and label sets, likewise
_INLINE_TEXTS = 16  # whose label sets are made
_RETRY_AFTER = 1.0


class Preparation:
    """Prepares the instances of calls. For one event loop.

    pool: the threads that preprocess.
    """

    def __init__(self, settings: Settings, metrics: Metrics, quotas: Quotas, most_held: int) -> None:
        """Start the threads. quotas: of callers' rows. most_held: bytes that all calls together may hold."""
        self._settings = settings
        self._metrics = metrics
        self._quotas = quotas
        self._most_held = most_held
        self.pool = PreprocessingPool(settings.preprocess_count)
        self._preprocessed: Counter[tuple[str, int]] = Counter()  # rows that threads preprocess, by model

    async def on_thread(self, function: Callable[[], T], call: Call) -> T:
        """Run a function on a preprocessing thread. Raises: what it raises; DeadlineError."""
        (result,) = await self.pool.run(1, lambda _: function(), call.deadline)
        return result

    async def prepared(self, checked: CheckedCall, call: Call) -> Sequence[PreparedInstance]:
        """Preprocess every instance, and bound the bytes of the answer, or of a stream's largest first message."""
        instances = checked.request.instances
        count, counted = checked.count, checked.request.counted
        rows = count if counted is None else counted
        call.rows += rows
        started = time.perf_counter_ns()
        is_light = _is_light(checked, instances)
        self._check_in_time(checked, call, rows or count, threads=not is_light)
        if call.caller.name and rows:
            call.when_sent(self._quotas.take(call.caller, rows))

        if is_light:
            prepared = [_prepared_one(checked, instances, place) for place in range(count)]
        else:
            key = checked.schema.name, checked.schema.version
            prepared = await self._on_threads(key, count, partial(_prepared_one, checked, instances), call)
        measure = partial(_measured, checked, prepared, self._most_held)
        checked.size = measure() if is_light else await self.on_thread(measure, call)
        took = time.perf_counter_ns() - started
        call.durations["preprocess"] = took
        self._metrics.stage(call.model, Stage.PREPROCESS, took / 1e9)
        call.traced("preprocess", took)
        return prepared

    async def tokenized(self, request: CallRequest, schema: ModelSchema, limit: int, call: Call) -> list[Tokenized]:
        """Cut the texts of every instance into tokens. limit: bytes of all label sets.

        Raises: InputError naming the field; TooLargeError, QueueFullError, DeadlineError.
        """
        instances, started = request.instances, time.perf_counter_ns()
        count = call.rows = len(instances)
        if call.caller.name:
            call.when_sent(self._quotas.take(call.caller, count))
        sizes: list[int] = []

        def one(place: int) -> Tokenized:
            instance, path = instances.read(place, schema), instances.path(place)
            sets, cut = schema.preprocessor.tokens(instance, field=path, truncate=request.options.truncate)
            labels = [request.encode_labels(schema, each) for each in sets]
            sizes.append(sum(map(len, labels)))
            if (size := sum(sizes)) > limit:
                raise TooLargeError("instances", f"need an answer of {size} bytes or more; at most {limit} are allowed")
            return Tokenized(labels, cut)

        if instances.size <= _INLINE_REQUEST and count <= _INLINE_TEXTS:
            results = [one(place) for place in range(count)]
        else:  # their rows are of no engine
            results = await self._on_threads(("", 0), count, one, call)
        took = time.perf_counter_ns() - started
        call.durations["preprocess"] = took
        self._metrics.stage(call.model, Stage.PREPROCESS, took / 1e9)
        call.traced("preprocess", took)
        return results

    def admit(self, checked: CheckedCall, rows: int, call: Call) -> None:
        """Count rows that a call has beside its instances, and refuse them as if they had come with these.

        Raises: QueueFullError, QuotaError.
        """
        call.rows += rows
        self._check_in_time(checked, call, call.rows, threads=False)
        if call.caller.name:
            call.when_sent(self._quotas.take(call.caller, rows, begun=True))

    async def intervened(
        self, checked: CheckedCall, prepared: Sequence[PreparedInstance], call: Call
    ) -> Sequence[PreparedInstance]:
        """Add the tensors of interventions to the rows, once their memory is held: a few bytes can ask for whole maps.

        Raises: InputError naming the field; DeadlineError.
        """
        if not checked.request.instances.has_interventions:
            return prepared
        schema = checked.schema

        def one(place: int) -> PreparedInstance:
            each = prepared[place]
            steps = schema.steps(each.row, checked.wanted.generation)
            return replace(each, row=with_interventions(each.row, each.interventions, schema, steps, call.deadline))

        return await self.pool.run(len(prepared), one, call.deadline)

    async def _on_threads(self, key: tuple[str, int], count: int, one: Callable[[int], T], call: Call) -> list[T]:
        if self._preprocessed.total() + count > self._settings.queue_rows:
            self._metrics.rejected(Rejection.QUEUE_FULL, count)
            raise QueueFullError("too many instances wait to be prepared; try again later", retry_after=_RETRY_AFTER)
        self._preprocessed[key] += count
        try:
            return await self.pool.run(count, one, call.deadline)
        finally:
            self._preprocessed[key] -= count

    def _check_in_time(self, checked: CheckedCall, call: Call, rows: int, *, threads: bool) -> None:
        """Refuse rows that would be late. Where none of their model is under way, the engine's estimate does not count:
        an old one may be wrong, and only calls tell.

        Args:
            threads: they are preprocessed on threads.
        """
        if call.deadline is None:
            return
        engine = checked.model.engine()
        name, version = checked.schema.name, checked.schema.version
        ahead = self._preprocessed[name, version]
        is_known = ahead or engine.under_way(name, version)
        estimate = engine.wait(name, version) if is_known else WaitEstimate()
        preprocessing = self._preprocessed.total() * self.pool.seconds_each if threads else 0.0
        try:
            check_in_time(estimate, rows + ahead, preprocessing, call.deadline)
        except QueueFullError:
            self._metrics.rejected(Rejection.OVERLOAD, rows)
            raise


def _prepared_one(checked: CheckedCall, instances: InstanceSource, place: int) -> PreparedInstance:
    """Convert and check one instance. Raises: InputError and its kinds."""
    started = time.perf_counter_ns()
    wanted, schema, plan = checked.wanted, checked.schema, checked.plan
    instance = instances.read(place, schema)
    row = schema.preprocessor.row(instance, field=instances.path(place), truncate=checked.request.options.truncate)
    if wanted.generation.continue_target and schema.target_tensor not in row.tensors:
        path = input_path(instances.path(place), schema.target_input)
        raise InputError(path, "is missing; continue_target goes on behind it")
    if plan is not None:
        check_instance(plan, row.labels)
        for name in schema.input_steps.keys() & plan.key_groups.keys():
            check_prompt(plan.key_groups[name], schema.labels_to_come(name, row, 0))
    encode = checked.request.encode_labels
    labels = {name: encode(schema, row.labels[name]) for name in wanted.labels if name in row.labels}
    bounds = checked.model.sizes.bounds(row, wanted, streamed=checked.stream_limit is not None)
    interventions, given = instances.interventions(place) if instances.has_interventions else (), 0
    if interventions:
        steps = schema.steps(row, wanted.generation)
        given = given_bytes(row, interventions, schema, steps)
        added = intervened_bytes(row, schema, steps)
        share = bounds.a_worker // max(1, bounds.computing)
        bounds = replace(bounds, computing=bounds.computing + added, a_worker=bounds.a_worker + added * share)
    took = time.perf_counter_ns() - started
    return PreparedInstance(instance, row, instances.seed(place), labels, bounds, took, interventions, given)


def _measured(checked: CheckedCall, prepared: Sequence[PreparedInstance], most_held: int) -> int:
    """Bound the bytes of an answer, or of a stream's largest first message, and of the maps that interventions give.

    Raises: TooLargeError.
    """
    sizes, wanted, count = checked.model.sizes, checked.wanted, len(prepared)
    measured = [
        Measured(each.row, {name: len(data) for name, data in each.labels.items()}, each.bounds) for each in prepared
    ]
    if checked.request.options.is_rectangular:
        measured = [sizes.widest(measured, wanted)] * count
    if checked.stream_limit is not None and checked.plan is not None:
        size = sizes.checked_stream(measured, wanted, checked.plan, checked.stream_limit)
    else:
        size = sizes.checked(measured, wanted)
    if checked.plan is not None or checked.request.instances.has_interventions:
        largest = max(each.bounds.computing for each in prepared)
        check_computed(largest, most_held, streamed=checked.stream_limit is not None)
    if not checked.request.instances.has_interventions:
        return size
    given = sum(each.given for each in prepared)
    check_given(given, most_held)
    return size + given


def _is_light(checked: CheckedCall, instances: InstanceSource) -> bool:
    """True for instances that are prepared in less time than it takes to hand them to a thread."""
    attention, plan = checked.wanted.attention, checked.plan
    maps = 0 if plan is None else len(plan.selected) * checked.count
    is_grouped = attention.query_groups or attention.key_groups
    made = len(checked.model.builders) + len(checked.wanted.labels)
    if made * checked.count > _INLINE_RESULTS:
        return False
    if maps > _INLINE_MAPS or checked.request.options.is_large or instances.has_interventions or is_grouped:
        return False
    if instances.size > _INLINE_TENSORS:
        return False
    return instances.has_tensors_only or (instances.size <= _INLINE_REQUEST and not instances.has_files(checked.schema))
