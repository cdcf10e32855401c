"""From raw answers to what leaves an engine: maps selected, reduced and encoded, on the thread that computed them."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Array
from limelight_service.attention.hidden import HiddenRequest
from limelight_service.attention.plan import AttentionPlan
from limelight_service.engine.attention.apply import apply
from limelight_service.engine.attention.part import Finished
from limelight_service.engine.types import Answer, SequenceMaps, Step
from limelight_service.ipc.boundary import MapResult, Reading, RowResult, SequenceResult, TokenResult


def row_result(
    answer: Answer,
    row: Row,
    plan: AttentionPlan | None,
    *,
    outputs: Collection[str],
    hidden: HiddenRequest | None = None,
    read: Callable[[Mapping[str, Array], int], tuple[Reading, ...]] | None = None,
    growing: Collection[str] = (),
    left_out: str = "",
) -> RowResult:
    """Reduce the answer to one row.

    Args:
        outputs: names of those that are wanted.
        hidden: hidden states that are wanted; None for none.
        read: reads tokens from hidden states.
        growing: label sets that grow with each generated token.
        left_out: maps whose queries are of this label set were told token by token.

    Raises: InputError where an index that only running the model decides is not there.
    """
    started = time.perf_counter_ns()
    maps: tuple[MapResult, ...] = ()
    derived: Iterable[Labels] = ()
    others: tuple[SequenceResult, ...] = ()
    if plan is not None:
        if left_out:
            plan = _without(plan, left_out)
        applied = apply(plan, answer.maps, answer.labels)
        maps, derived = _results(applied.maps), applied.labels.values()
        others = tuple([_sequence(answer, other, plan, growing) for other in answer.other_sequences])
    found = {name: array for name, array in answer.outputs.items() if name in outputs}
    readings: tuple[Reading, ...] = ()
    if hidden is not None:
        states = {name: hidden.reduced(answer.outputs[name], name) for name in hidden.names}
        if hidden.top_tokens and read is not None:
            readings = read(states, hidden.top_tokens)
        else:
            found |= states
    return RowResult(
        outputs=found,
        graph=answer.graph,
        batch_rows=answer.batch_rows,
        timing=answer.timing,
        maps=maps,
        labels=tuple([each for name, each in answer.labels.items() if row.labels.get(name) is not each]),
        derived_labels=tuple(derived),
        seed=answer.seed,
        sequences=answer.sequences,
        other_sequences=others,
        reduce_nanoseconds=time.perf_counter_ns() - started,
        readings=readings,
    )


def token_result(step: Step, labels: Mapping[str, Labels], plan: AttentionPlan | None) -> TokenResult:
    """Reduce one token and its row of every map. labels: sets of the row, and of input steps that may come."""
    maps: tuple[MapResult, ...] = ()
    if plan is not None:
        own = {name for name, _ in step.maps}
        selected = tuple(each for each in plan.selected if each.description.name in own)
        maps = _results(apply(replace(plan, selected=selected), step.maps, labels, step.index).maps)
    return TokenResult(
        step.index, step.token_id, step.text, step.delta, step.log_probability, maps, step.forced, step.top
    )


def map_result(finished: Finished) -> MapResult:
    """Give a finished map as it leaves the engine."""
    part = finished.part
    return MapResult(
        name=part.description.name,
        normalised=part.normalised,
        signed=part.signed,
        heads=list(part.heads),
        head_reduction=part.head_reduction,
        query_labels=part.query_labels,
        key_labels=part.key_labels,
        weights=finished.weights,
        queries=part.queries,
        keys=part.keys,
        scales=finished.scales,
        query_index=part.query_index,
        key_index=part.key_index,
        left_out=part.left_out,
    )


def _results(maps: Iterable[Finished]) -> tuple[MapResult, ...]:
    return tuple([map_result(each) for each in maps])


def _without(plan: AttentionPlan, label_set: str) -> AttentionPlan:
    return replace(plan, selected=tuple(each for each in plan.selected if each.description.query_labels != label_set))


def _sequence(answer: Answer, other: SequenceMaps, plan: AttentionPlan, growing: Collection[str]) -> SequenceResult:
    """Reduce the maps of one further sequence; label sets of groups come along where its own tokens decide them."""
    applied = apply(_part_of(plan, other), other.maps, {**answer.labels, **other.labels})
    made = [each for each in applied.labels.values() if each.parent in growing]
    return SequenceResult(_results(applied.maps), (*other.labels.values(), *made))


def _part_of(plan: AttentionPlan, other: SequenceMaps) -> AttentionPlan:
    """Keep of a plan what a sequence's own tokens decide."""
    own = {name for name, _ in other.maps}
    selected = tuple(each for each in plan.selected if each.description.name in own)
    stacks = {
        stack: members
        for stack, members in plan.stacks.items()
        if all(each.description.name in own for each in members)
    }
    return replace(plan, selected=selected, stacks=stacks)
