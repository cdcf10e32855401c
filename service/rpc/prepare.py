"""From a request to rows that are ready for the engine: what can be wrong with it is found here, before it runs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bundle.errors import InputError, TooLargeError
from bundle.rows import Row
from bundle.values import Instance
from bundle.wire import instance_from_wire
from limelight.v1 import attention_pb2, values_pb2
from service.attention.options import Options
from service.attention.plan import Plan, check_indices
from service.attention.size import fitting
from service.engine.types import GenerationSettings
from service.rpc.view import ModelView


@dataclass(frozen=True)
class Wish:
    """What a call asks for beside its instances, checked.

    plan: None for a prediction alone. limit: bytes of the whole answer.
    """

    outputs: Sequence[str]
    generation: GenerationSettings
    options: Options
    plan: Plan | None
    limit: int
    truncate: bool


@dataclass(frozen=True)
class Prepared:
    """One instance, ready for the engine.

    labels: messages of the label sets that its maps refer to, as far as the inputs decide them. nanoseconds: it took.
    """

    instance: Instance
    row: Row
    labels: Mapping[str, attention_pb2.LabelSet]
    nanoseconds: int


def prepare(
    view: ModelView, instances: Sequence[values_pb2.Instance], wish: Wish, field: str
) -> tuple[list[Prepared], int]:
    """Convert and check every instance of a call, and the size of its whole answer.

    field: path of an instance, `instances[{}]` or `instance`.
    Returns: the instances, and a bound of the answer's bytes.
    Raises: InputError and its kinds, naming the field.
    """
    prepared = [_prepare_one(view, instance, wish, field.format(place)) for place, instance in enumerate(instances)]
    return prepared, _checked_size(view, prepared, wish)


def _prepare_one(view: ModelView, message: values_pb2.Instance, wish: Wish, field: str) -> Prepared:
    started = time.perf_counter_ns()
    instance = instance_from_wire(message, field)
    row = view.model.preprocessor.row(instance, field=field, truncate=wish.truncate)
    labels: Mapping[str, attention_pb2.LabelSet] = {}
    if wish.plan is not None:
        check_indices(wish.plan, {name: each.size for name, each in row.labels.items()})
        labels = {
            name: view.label_message(row.labels[name]) for name in view.label_names(wish.plan) if name in row.labels
        }
    return Prepared(instance, row, labels, time.perf_counter_ns() - started)


def _checked_size(view: ModelView, prepared: Sequence[Prepared], wish: Wish) -> int:
    steps = [view.steps(each.row, wish.generation) for each in prepared]
    predictions = sum(view.answer_bytes(each.row, wish.outputs, wish.generation) for each in prepared)

    def measure(plan: Plan) -> int:
        return predictions + sum(
            view.attention_bytes(each.row, count, plan, each.labels)
            for each, count in zip(prepared, steps, strict=True)
        )

    size = measure(wish.plan) if wish.plan else predictions
    if size <= wish.limit:
        return size
    if wish.plan is None or predictions > wish.limit:
        advice = "send fewer instances, or name fewer outputs"
        raise TooLargeError("instances", f"the answer takes {size} bytes; at most {wish.limit} are allowed: {advice}")
    advice = fitting(view.maps, wish.options, wish.limit, measure) or "send fewer instances, or name fewer maps"
    raise TooLargeError("attention", f"the answer takes {size} bytes; at most {wish.limit} are allowed: {advice}")


def check_streamed(view: ModelView, wish: Wish) -> None:
    """Check what a call asks of the maps of one token at a time.

    Raises: InputError for a rollout, for queries, and for keys among the tokens that are not there yet.
    """
    if wish.plan is None:
        return
    if wish.options.rollout:
        raise InputError("attention.rollout", "does not apply to the maps of one token; use Attend")
    for place, selection in enumerate(wish.options.selections):
        if selection.queries:
            field = f"attention.selections[{place}].queries"
            raise InputError(field, "do not apply to the maps of one token; use Attend")
    for each in wish.plan.chosen:
        if each.keys is not None and each.description.key_labels == view.steps_label:
            raise InputError(
                each.keys[0].field, f"do not apply to {each.description.name}, whose keys grow; use Attend"
            )


def check_count(count: int, most: int) -> None:
    """Check the number of instances of a call.

    Raises: InputError for none, TooLargeError for more than `most`.
    """
    if not count:
        raise InputError("instances", "is empty; send at least one")
    if count > most:
        raise TooLargeError("instances", f"has {count} entries; at most {most} are allowed in one call")
