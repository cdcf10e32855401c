"""Explains the answers of a call: a usual row, and one for each unit and way, handed to an engine batch by batch.

Other calls get between two batches, and a call that is late or cancelled stops there.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import msgspec
import numpy as np

from limelight_bundle.errors import InputError, Path, TooLargeError
from limelight_bundle.rows import Row
from limelight_bundle.values import Array, Text
from limelight_service.admission.memory import Held, Transient
from limelight_service.attention.plan import check_instance, plan_attention
from limelight_service.attention.select import SelectedMap, indices, select_maps
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest, CheckedCall, PreparedInstance
from limelight_service.frontend.core import Core, Part, prediction_of
from limelight_service.frontend.explaining.agreement import agreement
from limelight_service.frontend.explaining.asked import Asked, Way
from limelight_service.frontend.explaining.erasing import Changed, Eraser
from limelight_service.frontend.explaining.explanation import Explanation, Explanations, WayValues
from limelight_service.frontend.explaining.looking import looking_away, looking_maps, no_looking
from limelight_service.frontend.explaining.shares import attended_maps, rolled_maps, share_options, shares
from limelight_service.frontend.explaining.targets import (
    Found,
    OfSequences,
    OfVectors,
    Outcome,
    Target,
    target_of,
)
from limelight_service.frontend.explaining.units import UnitFinder, Units, too_many
from limelight_service.frontend.interventions import intervened_bytes, with_interventions
from limelight_service.frontend.options import Wanted
from limelight_service.frontend.results import Answered
from limelight_service.frontend.schema import ModelSchema
from limelight_service.ipc import boundary
from limelight_service.ipc.boundary import FinishReason, GenerationSettings, InferenceRequest, RowResult
from limelight_service.ipc.client import as_it_is

_UNIT_BYTES = 64  # of an answer, beside a unit's text


async def explain(core: Core, request: CallRequest, asked: Asked, call: Call) -> Explanations:
    """Explain the answer to every instance. Raises: LimelightError of every kind."""
    started = time.perf_counter_ns()
    call.operation = call.operation or "explain"
    checked = await core.checked(request, call)
    try:
        explaining = _Explaining(core, checked, asked, call)
        prepared = await core.preparation.prepared(checked, call)
        plans = await core.preparation.pool.run(
            len(prepared), lambda place: explaining.plan(prepared[place], place), call.deadline
        )
        explaining.check_rows(plans)
        core.preparation.admit(checked, sum(each.rows for each in plans) - len(plans) + explaining.other_rows, call)
        found = [await explaining.explanation(each) for each in plans]
    except Exception:
        core.count_failed(checked, started)
        raise
    core.count_answered(checked, explaining.parts, call.durations["preprocess"], 0, started, call)
    checked.size += sum(_size(each) for each in plans)
    return Explanations(checked, found)


@dataclass(frozen=True)
class _Plan:
    """What is computed for one instance.

    attention: the options of each way that looks at weights. attended: the maps whose weights are shares. looking:
    those that look away. forced: the row with a given target. place: of the instance.
    """

    prepared: PreparedInstance
    place: int
    units: Units
    ways: Sequence[Way]
    attention: Sequence[tuple[Way, Wanted]]
    attended: Sequence[SelectedMap]
    looking: Sequence[SelectedMap]
    forced: Row | None

    @cached_property
    def changing(self) -> list[Way]:
        """The ways for which rows are changed."""
        return [each for each in self.ways if each.changes]

    def maps(self, way: Way) -> Sequence[SelectedMap]:
        """Give the maps whose attention counts in a way, or that look away."""
        if way.looks:
            return self.looking
        return () if way.changes else rolled_maps(self.attended) if way is Way.ROLLOUT else self.attended

    @property
    def fixed_rows(self) -> int:
        """Rows whatever the number of units."""
        return max(1, len(self.attention)) + int(self.forced is not None)

    @property
    def rows(self) -> int:
        """All rows."""
        return self.fixed_rows + len(self.changing) * len(self.units.members)


class _Explaining:
    """Explains the instances of one call.

    parts: of each row that was answered, for statistics. other_rows: rows beside those of plans.
    """

    def __init__(self, core: Core, checked: CheckedCall, asked: Asked, call: Call) -> None:
        """Check the request against the model. Raises: InputError, WrongModelError."""
        schema = checked.schema
        self._core, self._checked, self._asked, self._call = core, checked, asked, call
        self._target: Target = target_of(checked.model, asked.target)
        self._finder = UnitFinder(schema, asked.units)
        for place, selection in enumerate(asked.selections):
            if selection.keys:
                raise InputError(("selections", place, "keys"), "do not apply; units are the keys")
        self._selected = select_maps(schema.maps, asked.selections, field=()) if schema.maps else ()
        instances = checked.request.instances
        if instances.has_interventions:
            number = next(each for each in range(len(instances)) if instances.interventions(each))
            path = (*instances.path(number), "interventions")
            raise InputError(path, "do not go with an explanation, which changes attention itself")
        self.parts: list[Part] = []
        self.other_rows = int(asked.target.similar_to is not None)

    def plan(self, prepared: PreparedInstance, place: int) -> _Plan:
        """Plan the rows of an instance; for any thread. Raises: InputError; TooLargeError for too many units."""
        schema, path = self._checked.schema, self._checked.request.instances.path(place)
        units = self._finder.find(prepared.row, prepared.instance)
        attended = attended_maps(self._selected, units.label_sets)
        looking = looking_maps(self._selected, schema, units.label_sets)
        ways = self._ways(attended, looking)
        attention = [(way, self._weighed(way, attended, units, prepared.row)) for way in ways if not way.changes]
        forced = self._forced(prepared, path) if self._asked.target.text is not None else None
        return _Plan(prepared, place, units, ways, attention, attended, looking, forced)

    def check_rows(self, plans: Sequence[_Plan]) -> None:
        """Check the rows of the call against what the server and the caller's quota allow. Raises: TooLargeError."""
        most = self._core.settings.max_instances
        quota = self._call.caller.quota.rows_in_flight
        what = f"one call may have {most} rows"
        if quota and quota < most:
            most, what = quota, f"this token may have {quota} rows in flight"
        rows = sum(each.rows for each in plans) + self.other_rows
        if rows > most:
            left = most - sum(each.fixed_rows for each in plans) - self.other_rows
            ways = sum(len(each.changing) for each in plans)
            units = max(len(each.units.members) for each in plans)
            raise too_many(units, max(0, left // max(1, ways)), f"they take {rows} rows, and {what}", len(plans))

    async def explanation(self, plan: _Plan) -> Explanation:
        """Run the rows of a plan, batch by batch, and put the explanation together."""
        core, schema = self._core, self._checked.schema
        batch = self._batch(plan.prepared.row)
        with self._held(plan, batch):
            if self._asked.target.similar_to is not None:
                await self._compare()
            usual, weighed = await self._usual(plan)
            row, seed = plan.forced or plan.prepared.row, usual[0].seed
            labels = {**plan.prepared.row.labels, **{each.name: each for each in usual[-1].labels}}
            answered = Answered(usual[-1].outputs, usual[-1].sequences, labels, plan.prepared.instance)
            found = self._target.find(answered)
            if isinstance(self._target, OfSequences) and plan.forced is None:
                row = _forced_to(row, usual[0].sequences[0], schema)
            values = {way: shares(weighed[way].maps) for way, _ in plan.attention}
            values |= await self._changes(plan, row, seed, found, batch)
        plain = msgspec.structs.replace(usual[0], maps=(), derived_labels=(), other_sequences=())
        prediction = await core.made(
            self._checked, partial(prediction_of, self._checked, plan.prepared, plain), self._call
        )
        columns = [
            WayValues(each, values[each], [one.description.name for one in plan.maps(each)]) for each in plan.ways
        ]
        pairs = [(one, other) for place, one in enumerate(columns) for other in columns[place + 1 :]]
        agreements = [agreement(one.way, other.way, one.values, other.values) for one, other in pairs]
        rows = plan.rows + (0 if plan.place else self.other_rows)
        return Explanation(prediction, found.explained, plan.units.labels, columns, agreements, rows)

    async def _compare(self) -> None:
        """Have the vector of the other instance computed, once."""
        source, target = self._asked.target.similar_to, self._target
        assert source is not None and isinstance(target, OfVectors)
        if target.other is None:
            (row,) = await self._core.preparation.pool.run(1, lambda _: self._other_row(), self._call.deadline)
            (result,) = await self._answers([row], source.seed(0), self._checked.wanted, target.outputs)
            target.other = target.vector(result.outputs)

    def _other_row(self) -> Row:
        source, schema = self._asked.target.similar_to, self._checked.schema
        assert source is not None
        path = source.path(0)
        if source.has_interventions:
            raise InputError((*path, "interventions"), "do not go with an explanation; the instance stays as it is")
        truncate = self._checked.request.options.truncate
        return schema.preprocessor.row(source.read(0, schema), field=path, truncate=truncate)

    async def _usual(self, plan: _Plan) -> tuple[list[RowResult], dict[Way, RowResult]]:
        """Run the usual row, and the forced one where there is one; gives their answers, and those with weights."""
        wanted = self._checked.wanted
        row, seed = plan.prepared.row, plan.prepared.seed
        results: list[RowResult] = []
        weighed: dict[Way, RowResult] = {}
        if plan.forced is not None or not plan.attention:
            results += await self._answers([row], seed, wanted)
        if plan.forced is not None and not plan.attention:
            results += await self._answers([plan.forced], seed, wanted)
        for way, options in plan.attention:
            (result,) = await self._answers([plan.forced or row], seed, options)
            self._core.count_weights(self._call, *result.maps)
            seed = result.seed  # of a fresh draw, the same again
            weighed[way] = result
            if len(results) < (1 if plan.forced is None else 2):
                results.append(result)
        return results, weighed

    async def _changes(self, plan: _Plan, row: Row, seed: int | None, found: Found, batch: int) -> dict[Way, Array]:
        """Run the changed rows of every way, a batch at a time, and give the changes of the score [unit]."""
        schema, prepared = self._checked.schema, plan.prepared
        path = self._checked.request.instances.path(plan.place)
        eraser = Eraser(schema, prepared.instance, row, path)
        steps = schema.steps(row, self._checked.wanted.generation)

        def changed(way: Way, place: int) -> Changed:
            entries = plan.units.others(place) if way.keeps else plan.units.members[place]
            if not way.looks:
                return eraser.erased(entries)
            changes = looking_away(plan.looking, entries, path)
            return Changed(with_interventions(row, changes, schema, steps, self._call.deadline), {})

        async def changes(way: Way, places: range) -> list[float]:
            """Run one batch."""
            made = await self._core.preparation.pool.run(
                len(places), lambda number: changed(way, places[number]), self._call.deadline
            )
            rows, outputs = [each.row for each in made], self._target.outputs
            results = await self._answers(rows, seed, self._checked.wanted, outputs)
            return [
                found.change(Outcome(result.outputs, result.sequences, each.kept))
                for each, result in zip(made, results, strict=True)
            ]

        count = len(plan.units.members)
        values: dict[Way, Array] = {}
        for way in plan.changing:
            column: list[float] = []
            for first in range(0, count, batch):
                column += await changes(way, range(first, min(count, first + batch)))
            values[way] = np.array(column)
        return values

    async def _answers(
        self, rows: Sequence[Row], seed: int | None, wanted: Wanted, outputs: frozenset[str] | None = None
    ) -> list[RowResult]:
        """Have an engine answer rows. outputs: of changed rows, whose sequences are forced, those that are needed."""
        checked, longest = self._checked, wanted.generation.max_new_tokens
        request = InferenceRequest(
            model=checked.schema.name,
            version=checked.schema.version,
            rows=tuple(rows),
            seeds=(seed,) * len(rows),
            outputs=wanted.kept_outputs if outputs is None else outputs,
            attention=None if wanted.plan is None else wanted.attention,
            generation=wanted.generation if outputs is None else GenerationSettings(max_new_tokens=longest),
            deadline=self._call.deadline,
        )
        cache = self._core.cache
        engine = checked.model.engine() if cache is None else cache.engine(checked, self._call)
        results = await engine.answer(request, as_it_is)
        plain = [RowResult({}, each.graph, each.batch_rows, each.timing, cached=each.cached) for each in results]
        self.parts += [Part(b"", each, 0) for each in plain]
        return results

    def _ways(self, attended: Sequence[SelectedMap], looking: Sequence[SelectedMap]) -> Sequence[Way]:
        """Give the ways of an instance. Raises: InputError for one that its model has not."""
        schema = self._checked.schema
        if not self._asked.ways:
            return [*([Way.ATTENTION] if attended else []), Way.LOOK_AWAY if looking else Way.ERASE]
        for place, way in enumerate(self._asked.ways):
            path = ("ways", place)
            if way.looks and not looking:
                raise no_looking(self._selected, schema, way, path)
            if not way.changes and not attended:
                names = ", ".join(each.description.name for each in self._selected[:12]) or "the model's maps"
                reason = (
                    "has weights that are shares of units: they have no fixed sum, or their keys are not of this input"
                )
                raise InputError(path, f"is {way.value}, but none of {names} {reason}")
            if way is Way.ROLLOUT and not rolled_maps(attended):
                raise InputError(path, "is WAY_ROLLOUT, which needs square self maps, and none is selected")
        return self._asked.ways

    def _weighed(self, way: Way, attended: Sequence[SelectedMap], units: Units, row: Row) -> Wanted:
        """Check the attention of a way against the instance. Raises: InputError."""
        for each in attended:
            name = each.description.query_labels
            if each.queries is not None and name in row.labels:
                indices(each.queries, row.labels[name].size, f"queries of {each.description.name}")
        is_rollout = way is Way.ROLLOUT
        options = share_options(rolled_maps(attended) if is_rollout else attended, units, rollout=is_rollout)
        plan = plan_attention(self._checked.schema.maps, options, ())
        check_instance(plan, row.labels)
        return replace(self._checked.wanted, plan=plan, attention=plan.options, bounds={})

    def _forced(self, prepared: PreparedInstance, path: Path) -> Row:
        """Make the row that is forced to put out the given text. Raises: InputError."""
        schema, text = self._checked.schema, self._asked.target.text
        assert text is not None
        if schema.target_input not in prepared.instance and schema.target_tensor not in prepared.instance:
            try:
                return schema.preprocessor.row(
                    {**prepared.instance, schema.target_input: Text(text)},
                    field=path,
                    truncate=self._checked.request.options.truncate,
                )
            except InputError as error:
                if schema.target_input in error.path:
                    raise type(error)(("target", "text"), error.message) from error
                raise
        raise InputError((*path, "inputs", schema.target_input), "is set, and target.text too; leave one out")

    def _batch(self, row: Row) -> int:
        """Give the rows that are handed over together: a batch for each worker, so that another call waits for no more
        than one; of rows that generate half a batch, which others join meanwhile.
        """
        schema, most = self._checked.schema, self._checked.model.sizes.rows_at_once(row)
        return max(1, most // 2) if schema.generates else most * schema.served.workers

    def _held(self, plan: _Plan, batch: int) -> Held:
        """Hold the memory of a plan: its answer twice, the rows of a batch, and what an engine computes for them.

        Raises: TooLargeError, QueueFullError.
        """
        core, checked = self._core, self._checked
        row = plan.forced or plan.prepared.row
        bounds = [checked.model.sizes.bounds(row, wanted, streamed=False) for _, wanted in plan.attention]
        weighed = max((each.computing for each in bounds), default=0)
        if weighed > core.memory.limit:
            raise TooLargeError(
                "selections", f"take {weighed} bytes while they are computed; at most {core.memory.limit} are allowed: "
                "select fewer maps, or leave the ways of attention out"
            )  # fmt: skip
        steps = checked.schema.steps(row, checked.wanted.generation)
        added = intervened_bytes(row, checked.schema, steps) if plan.looking else 0
        count = min(batch, max(1, len(plan.units.members)))
        computing = max(weighed, (plan.prepared.bounds.computing + added) * count) // count
        held = 2 * (checked.size + _size(plan)) + count * sum(each.nbytes for each in row.tensors.values())
        if checked.schema.generates:
            return core.memory.take(held + computing * count)
        a_worker = computing * checked.model.sizes.rows_at_once(row)
        return core.memory.take(held, [Transient(a_worker, computing)] * count)


def _forced_to(row: Row, sequence: boundary.Sequence, schema: ModelSchema) -> Row:
    """Force a row to put out a sequence. Where steps come before a target, an end token follows it by itself."""
    target = np.array(sequence.token_ids[schema.before_target :], np.int64)
    if schema.before_target and sequence.finish_reason is FinishReason.END:
        target = target[:-1]
    tensors = {**row.tensors, schema.target_tensor: target}
    return replace(row, tensors=tensors, sizes={**row.sizes, schema.target_dimension: len(target)})


def _size(plan: _Plan) -> int:
    """Bound the bytes of an explanation beside its prediction."""
    texts = sum(len(each.encode()) for each in plan.units.labels.texts)
    return texts + len(plan.units.members) * _UNIT_BYTES * (2 + len(plan.ways))
