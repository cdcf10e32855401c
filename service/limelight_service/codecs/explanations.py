"""Requests and answers of Explain, between the messages of limelight.v1 and what the frontend takes and gives."""

from collections.abc import Sequence

from limelight.v1 import service_pb2 as pb
from limelight_bundle.errors import InputError
from limelight_service.attention.options import Span, check_selections
from limelight_service.codecs.messages import selected, unit_groups
from limelight_service.frontend.calls import InstanceSource
from limelight_service.frontend.explaining.asked import Asked, AskedTarget, AskedUnits, UnitKind, Way
from limelight_service.frontend.explaining.explanation import Explanation

_LONGEST_TARGET = 65_536  # characters of an output that is forced
_MOST_INPUTS = 64
_WAYS = {pb.Way.Value(each.value): each for each in Way}
_KINDS = {pb.UnitKind.Value(each.value): each for each in UnitKind}


def asked_of(message: pb.ExplainRequest, similar_to: InstanceSource | None) -> Asked:
    """Check and translate what is asked of an explanation, its instances apart.

    Args:
        similar_to: the target's instance, in the form of the protocol; None without one.

    Raises: InputError naming the field.
    """
    check_selections(message.selections, ())
    return Asked(
        _target(message.target, similar_to), _units(message.units), _ways(message.ways), selected(message.selections)
    )


def explanation_message(explanation: Explanation) -> pb.Explanation:
    """Make the message of an explanation, without its prediction and its units."""
    it = explanation.target
    target = pb.ExplainedTarget(
        result=it.result,
        label=it.label,
        index=it.index,
        entry=it.entry,
        score_kind=it.kind.value,
        score=it.score,
    )
    message = pb.Explanation(target=target, rows=explanation.rows)
    for each in explanation.ways:
        message.ways.add(way=pb.Way.Value(each.way.value), values=each.values.tolist(), maps=each.maps)
    for one in explanation.agreements:
        first, second = pb.Way.Value(one.first.value), pb.Way.Value(one.second.value)
        message.agreements.add(first=first, second=second, correlation=one.correlation, low=one.low, high=one.high)
    return message


def _target(message: pb.ExplainTarget, similar_to: InstanceSource | None) -> AskedTarget:
    kind = "similar_to" if similar_to is not None else message.WhichOneof("kind")
    if len(message.text) > _LONGEST_TARGET:
        many = f"has {len(message.text)} characters; at most {_LONGEST_TARGET} are allowed"
        raise InputError(("target", "text"), many)
    span = message.span
    return AskedTarget(
        message.result,
        label=message.label if kind == "label" else None,
        index=message.index if kind == "index" else None,
        text=message.text if kind == "text" else None,
        span=Span(span.start, span.end, span.sentence if span.HasField("sentence") else None, span.part)
        if kind == "span"
        else None,
        similar_to=similar_to,
        entry=message.entry if message.HasField("entry") else None,
    )


def _units(message: pb.UnitOptions) -> AskedUnits:
    if message.kind not in _KINDS:
        raise InputError(("units", "kind"), f"has no value {message.kind}")
    if len(message.inputs) > _MOST_INPUTS:
        raise InputError(("units", "inputs"), f"has {len(message.inputs)} entries; at most {_MOST_INPUTS} are allowed")
    groups = unit_groups(message.groups, ("units", "groups"))
    return AskedUnits(_KINDS[message.kind], message.size, groups, message.label_set, tuple(message.inputs))


def _ways(ways: Sequence[int]) -> Sequence[Way]:
    found: list[Way] = []
    for place, each in enumerate(ways):
        if each not in _WAYS:
            raise InputError(("ways", place), f"has no value {each}" if each else "is WAY_UNSPECIFIED; name a way")
        if _WAYS[each] in found:
            raise InputError(("ways", place), f"is {_WAYS[each].value} a second time; name each way once")
        found.append(_WAYS[each])
    return found
