"""From a request to rows that are ready for the engine: what can be wrong with it is found here, before it runs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bundle.errors import InputError, TooLargeError
from bundle.maps import MapPart
from bundle.rows import Row
from bundle.values import Instance
from bundle.wire import instance_from_wire
from limelight.v1 import values_pb2
from service.attention.options import Options
from service.attention.plan import AttentionPlan, check_instance, parts_of
from service.attention.size import fitting
from service.engine.types import GenerationSettings
from service.rpc.view import ModelView

_MOST_MEASURED = 4096  # maps of all instances, to find what would fit: a dozen ways, each of some microseconds a map


@dataclass(frozen=True)
class CallOptions:
    """What a call asks for beside its instances, checked.

    plan: None for a prediction alone. label_names: the label sets that its answers refer to. max_classes: 0 for all.
    limit: bytes of the whole answer; of a stream, of each message. stream_limit: bytes of a stream's attention; None
    where the answer is no stream. is_large: whether the maps are asked for in many words, which
    take time again with each instance.
    """

    outputs: Sequence[str]
    generation: GenerationSettings
    attention: Options
    plan: AttentionPlan | None
    label_names: Sequence[str]
    max_classes: int
    limit: int
    truncate: bool
    is_large: bool = False
    stream_limit: int | None = None

    @property
    def is_streamed(self) -> bool:
        """True where maps come in chunks."""
        return self.stream_limit is not None

    @property
    def has_groups(self) -> bool:
        """True where entries are grouped, which can take long however small the answer is."""
        return bool(self.attention.query_groups or self.attention.key_groups)


@dataclass(frozen=True)
class PreparedInstance:
    """One instance, ready for the engine.

    seed: what the caller sent. labels: the label sets that its answer refers to, serialised, as far as the inputs
    decide them. parts: what is enough of its maps. attention: bound of the bytes of its maps in the answer. computing:
    of what it holds from when it is computed until its maps are cut and encoded. nanoseconds: it took.
    """

    instance: Instance
    row: Row
    seed: int | None
    labels: Mapping[str, bytes]
    parts: Mapping[tuple[str, int], MapPart]
    attention: int
    computing: int
    nanoseconds: int


def prepare(
    view: ModelView, instances: Sequence[values_pb2.Instance], options: CallOptions, field: str
) -> tuple[list[PreparedInstance], int]:
    """Convert and check every instance of a call, and the size of its whole answer.

    field: path of an instance, `instances[{}]` or `instance`.
    Returns: the instances, and a bound of the answer's bytes.
    Raises: InputError and its kinds, naming the field.
    """
    prepared = [prepare_one(view, instance, options, field.format(place)) for place, instance in enumerate(instances)]
    return prepared, checked_size(view, prepared, options)


def prepare_one(view: ModelView, message: values_pb2.Instance, options: CallOptions, field: str) -> PreparedInstance:
    """Convert and check one instance; `field` is its path. Raises: InputError and its kinds."""
    started = time.perf_counter_ns()
    if message.interventions:
        _check_interventions(view, message.interventions, f"{field}.interventions")
    instance = instance_from_wire(message, field)
    row = view.model.preprocessor.row(instance, field=field, truncate=options.truncate)
    parts = {}
    if options.plan is not None:
        check_instance(options.plan, row.labels)
        parts = parts_of(options.plan, row.labels)
        if options.is_streamed:
            parts = dict.fromkeys(options.plan.keys, MapPart(projected=True))
    labels = {name: view.label_bytes(row.labels[name]) for name in options.label_names if name in row.labels}
    seed = message.seed if message.HasField("seed") else None
    generation, plan = options.generation, options.plan
    attention = 0 if plan is None else view.attention_bytes(row, view.steps(row, generation), plan)
    computing = view.computing_bytes(row, options.outputs, generation, plan, streamed=options.is_streamed)
    computing += 0 if options.is_streamed else attention
    return PreparedInstance(instance, row, seed, labels, parts, attention, computing, time.perf_counter_ns() - started)


def _check_interventions(view: ModelView, interventions: Sequence[values_pb2.Intervention], field: str) -> None:
    """Refuse changes to attention that a map does not take."""
    maps = {each.name: each for each in view.maps}
    for place, each in enumerate(interventions):
        if each.map not in maps:
            raise InputError(f"{field}[{place}].map", f"is {each.map!r}; the model has {', '.join(maps) or 'no maps'}")
        change = each.WhichOneof("change")
        if change is None:
            raise InputError(f"{field}[{place}]", "has no change; set one of head_scales, weights")
        raise InputError(f"{field}[{place}].{change}", f"does not apply to {each.map}, which takes no interventions")


def checked_size(view: ModelView, prepared: Sequence[PreparedInstance], options: CallOptions) -> int:
    """Bound the bytes of the whole answer, or of a stream's largest first message.

    Raises: TooLargeError where that is more than the call allows.
    """
    if options.stream_limit is not None and options.plan is not None:
        return _checked_stream(view, prepared, options, options.plan, options.stream_limit)
    steps = [view.steps(each.row, options.generation) for each in prepared]
    predictions = sum(
        view.answer_bytes(each.row, options.outputs, options.generation, options.max_classes) for each in prepared
    )

    def measure(plan: AttentionPlan | None) -> int:
        names = options.label_names if plan is options.plan else view.label_names(plan)
        total = predictions
        for each, count in zip(prepared, steps, strict=True):
            total += view.labels_size(names, each.labels, each.row, count) if names else 0
            if plan is options.plan:
                total += each.attention
            elif plan is not None:
                total += view.attention_bytes(each.row, count, plan)
        return total

    size = measure(options.plan)
    if size <= options.limit:
        return size
    if options.plan is None or predictions > options.limit:
        advice = "send fewer instances, name fewer outputs, or set max_classes"
        raise TooLargeError(
            "instances", f"need an answer of {size} bytes; at most {options.limit} are allowed: {advice}"
        )
    advice = ""
    if len(prepared) * len(options.plan.selected) <= _MOST_MEASURED:
        advice = fitting(view.maps, options.attention, options.limit, measure)
    advice = advice or "send fewer instances, or name fewer maps"
    raise TooLargeError("attention", f"needs an answer of {size} bytes; at most {options.limit} are allowed: {advice}")


def _checked_stream(
    view: ModelView, prepared: Sequence[PreparedInstance], options: CallOptions, plan: AttentionPlan, most: int
) -> int:
    total = sum(each.attention for each in prepared)
    if total > most:
        raise TooLargeError(
            "attention", f"needs a stream of {total} bytes; at most {most} are allowed: name fewer maps"
        )
    largest = 0
    for each in prepared:
        steps = view.steps(each.row, options.generation)
        size = view.answer_bytes(each.row, options.outputs, options.generation, options.max_classes)
        size += view.labels_size(options.label_names, each.labels, each.row, steps)
        largest = max(largest, size + view.header_bytes(each.row, steps, plan))
        if view.chunk_bytes(each.row, steps, plan) > options.limit:
            raise TooLargeError(
                "attention.max_response_bytes",
                f"is {options.limit}; one query takes {view.chunk_bytes(each.row, steps, plan)} bytes",
            )
    if largest > options.limit:
        advice = "name fewer outputs, or set max_classes"
        raise TooLargeError(
            "instances", f"need a message of {largest} bytes; at most {options.limit} are allowed: {advice}"
        )
    return largest


def check_computed(prepared: Sequence[PreparedInstance], options: CallOptions, most: int) -> None:
    """Check what is held while the maps of one instance are computed, by what all calls together may hold.

    Raises: TooLargeError.
    """
    largest = max((each.computing for each in prepared), default=0)
    if options.plan is not None and largest > most:
        advice = "name fewer maps, heads or queries" + ("" if options.is_streamed else ", or use AttendStream")
        raise TooLargeError(
            "attention", f"takes {largest} bytes while it is computed; at most {most} are allowed: {advice}"
        )


def check_by_rows(options: CallOptions) -> None:
    """Check that what a stream asks for can be had row by row. Raises: InputError."""
    attention = options.attention
    for name, asked in (
        ("rollout", attention.rollout),
        ("query_groups", bool(attention.query_groups)),
        ("pool", attention.pool is not None),
        ("sequences", attention.sequences > 1),
    ):
        if asked:
            raise InputError(f"attention.{name}", "does not apply to maps that come in chunks; use Attend")


def check_sequences(view: ModelView, options: CallOptions) -> None:
    """Check how many sequences maps are asked for.

    Raises: InputError for more than the call brings.
    """
    most = options.generation.hypotheses if view.model.generates else 1
    if options.attention.sequences > most:
        there = f"hypotheses is {most}" if view.model.generates else "the model does not generate"
        raise InputError("attention.sequences", f"is {options.attention.sequences}; {there}")


def check_streamed(view: ModelView, options: CallOptions) -> None:
    """Check what a call asks of the maps of one token at a time.

    Raises: InputError for what needs more than one token, and for keys among the tokens that are not there yet.
    """
    if options.plan is None:
        return
    attention = options.attention
    for name, asked in (
        ("rollout", attention.rollout),
        ("query_groups", bool(attention.query_groups)),
        ("pool", attention.pool is not None),
        ("sequences", attention.sequences > 1),
    ):
        if asked:
            raise InputError(f"attention.{name}", "does not apply to the maps of one token; use Attend")
    for place, selection in enumerate(attention.selections):
        if selection.queries:
            field = f"attention.selections[{place}].queries"
            raise InputError(field, "do not apply to the maps of one token; use Attend")
    for each in options.plan.selected:
        if each.keys is not None and each.description.key_labels in view.growing:
            raise InputError(
                each.keys.lists[0].field, f"do not apply to {each.description.name}, whose keys grow; use Attend"
            )
    for name in view.growing.intersection(options.plan.key_groups):
        field = options.plan.key_groups[name].grouping.field
        raise InputError(field, f"do not apply to {name}, which grow; use Attend")


def check_count(count: int, most: int) -> None:
    """Check the number of instances of a call.

    Raises: InputError for none, TooLargeError for more than `most`.
    """
    if not count:
        raise InputError("instances", "is empty; send at least one")
    if count > most:
        raise TooLargeError("instances", f"has {count} entries; at most {most} are allowed in one call")
