"""The options of a request, checked and translated. Field names are paths in the request."""

import math
from collections.abc import Sequence

from limelight.v1 import attention_pb2, service_pb2
from limelight_bundle.errors import InputError
from limelight_service.attention.options import (
    Encoding,
    Group,
    Grouping,
    GroupReduction,
    HeadReduction,
    Options,
    Pooling,
    PoolReduction,
    Selection,
    Span,
)
from limelight_service.frontend.validation import MOST_NAMES
from limelight_service.ipc.boundary import GenerationSettings, Strategy
from limelight_service.platform.numbers import shown

# Enough for anything sensible, and few enough that checking them takes no time that others would notice.
MOST_SELECTIONS = 64
MOST_INDICES = 100_000
LONGEST_NAME = 256
MOST_GROUPINGS = 64
MOST_SPANS = 4_096
MOST_GROUPS = 1_024
LARGEST_POOL = 4_096
MOST_STOPS = 16
LONGEST_STOP = 256
MOST_BEAMS = 16
_DEFAULT_BEAMS = 4

_REDUCTIONS = {
    attention_pb2.HEAD_REDUCTION_UNSPECIFIED: HeadReduction.NONE,
    attention_pb2.HEAD_REDUCTION_MEAN: HeadReduction.MEAN,
    attention_pb2.HEAD_REDUCTION_MAX: HeadReduction.MAX,
}
_ENCODINGS = {
    attention_pb2.ENCODING_UNSPECIFIED: Encoding.FLOAT32,
    attention_pb2.ENCODING_FLOAT32: Encoding.FLOAT32,
    attention_pb2.ENCODING_FLOAT16: Encoding.FLOAT16,
    attention_pb2.ENCODING_UINT8: Encoding.UINT8,
}
# The default depends on the axis.
_GROUP_REDUCTIONS = {
    attention_pb2.GROUP_REDUCTION_UNSPECIFIED: None,
    attention_pb2.GROUP_REDUCTION_SUM: GroupReduction.SUM,
    attention_pb2.GROUP_REDUCTION_MEAN: GroupReduction.MEAN,
}
_POOL_REDUCTIONS = {
    attention_pb2.POOL_REDUCTION_UNSPECIFIED: PoolReduction.MAX,
    attention_pb2.POOL_REDUCTION_MAX: PoolReduction.MAX,
    attention_pb2.POOL_REDUCTION_MEAN: PoolReduction.MEAN,
}
_QUANTITIES = {
    attention_pb2.QUANTITY_UNSPECIFIED: attention_pb2.QUANTITY_WEIGHTS,
    attention_pb2.QUANTITY_WEIGHTS: attention_pb2.QUANTITY_WEIGHTS,
    attention_pb2.QUANTITY_SCORES: attention_pb2.QUANTITY_SCORES,
    attention_pb2.QUANTITY_NORMS: attention_pb2.QUANTITY_NORMS,
}
_STRATEGIES = {
    service_pb2.STRATEGY_UNSPECIFIED: Strategy.GREEDY,
    service_pb2.STRATEGY_GREEDY: Strategy.GREEDY,
    service_pb2.STRATEGY_SAMPLE: Strategy.SAMPLE,
    service_pb2.STRATEGY_BEAM: Strategy.BEAM,
}


def attention_options(message: attention_pb2.AttentionOptions, field: str = "attention") -> Options:
    """Check the attention options of a request.

    Raises: InputError naming the option.
    """
    for name, known in (("reduce_heads", _REDUCTIONS), ("encoding", _ENCODINGS), ("quantity", _QUANTITIES)):
        if getattr(message, name) not in known:
            raise InputError(f"{field}.{name}", f"has no value {getattr(message, name)}")
    if message.top_k < 0:
        raise InputError(f"{field}.top_k", f"is {message.top_k}; it may be 0 (for all) or more")
    for name in ("max_response_bytes", "sequences"):
        if getattr(message, name) < 0:
            raise InputError(f"{field}.{name}", f"is {getattr(message, name)}; it may be 0 or more")
    for name in ("query_groups", "key_groups"):
        _check_groups(getattr(message, name), f"{field}.{name}")
    return Options(
        selections=_selections(message.selections, f"{field}.selections"),
        quantity=_QUANTITIES[message.quantity],
        reduce_heads=_REDUCTIONS[message.reduce_heads],
        rollout=message.rollout,
        query_groups=_groupings(message.query_groups, GroupReduction.MEAN, f"{field}.query_groups"),
        key_groups=_groupings(message.key_groups, GroupReduction.SUM, f"{field}.key_groups"),
        pool=_pooling(message.pool, f"{field}.pool") if message.HasField("pool") else None,
        top_k=message.top_k,
        encoding=_ENCODINGS[message.encoding],
        sequences=message.sequences or 1,
    )


def generation_settings(
    message: service_pb2.GenerationOptions, longest: int, field: str = "generation"
) -> GenerationSettings:
    """Check the generation options of a request and fill in the defaults; `longest` is the model's limit of tokens.

    Raises: InputError naming the option.
    """
    strategy = _STRATEGIES.get(message.strategy)
    if strategy is None:
        raise InputError(f"{field}.strategy", f"has no value {message.strategy}")
    for name, value in (("top_k", message.top_k), ("max_new_tokens", message.max_new_tokens)):
        if value < 0:
            raise InputError(f"{field}.{name}", f"is {value}; it may be 0 or more")
    temperature = message.temperature if message.HasField("temperature") else 1.0
    if not (math.isfinite(temperature) and temperature >= 0):
        raise InputError(
            f"{field}.temperature", f"is {shown(temperature)}; it may be 0 (the most probable token) or more"
        )
    top_p = message.top_p if message.HasField("top_p") else 1.0
    if not 0 <= top_p <= 1:
        raise InputError(f"{field}.top_p", f"is {shown(top_p)}; it may be from 0 (the most probable token) to 1")
    penalty = message.length_penalty if message.HasField("length_penalty") else 1.0
    if not 0 <= penalty <= 10:
        raise InputError(f"{field}.length_penalty", f"is {shown(penalty)}; it may be from 0 to 10")
    if not 0 <= message.beams <= MOST_BEAMS:
        raise InputError(
            f"{field}.beams", f"is {message.beams}; it may be from 0 (for {_DEFAULT_BEAMS}) to {MOST_BEAMS}"
        )
    beams = message.beams or _DEFAULT_BEAMS
    if not 0 <= message.hypotheses <= beams:
        raise InputError(f"{field}.hypotheses", f"is {message.hypotheses}; it may be from 0 (for 1) to beams ({beams})")
    return GenerationSettings(
        strategy=strategy,
        temperature=temperature,
        top_k=message.top_k,
        top_p=top_p,
        max_new_tokens=min(message.max_new_tokens or longest, longest),
        stop=_stops(message.stop, f"{field}.stop"),
        beams=beams,
        length_penalty=penalty,
        hypotheses=message.hypotheses or 1,
    )


def _groupings(messages: Sequence[attention_pb2.Grouping], default: GroupReduction, field: str) -> tuple[Grouping, ...]:
    found = []
    for place, each in enumerate(messages):
        path = f"{field}[{place}]"
        if each.reduction not in _GROUP_REDUCTIONS:
            raise InputError(f"{path}.reduction", f"has no value {each.reduction}")
        groups = tuple(_group(group, f"{path}.groups[{number}]") for number, group in enumerate(each.groups))
        found.append(Grouping(path, groups, _GROUP_REDUCTIONS[each.reduction] or default, each.label_set))
    return tuple(found)


def _group(message: attention_pb2.Group, field: str) -> Group:
    if len(message.name) > LONGEST_NAME:
        raise InputError(f"{field}.name", f"has {len(message.name)} characters; at most {LONGEST_NAME} are allowed")
    group = Group(
        message.name,
        tuple(message.indices),
        tuple([(each.start, each.end) for each in message.ranges]),
        tuple(
            [
                Span(each.start, each.end, each.sentence if each.HasField("sentence") else None, each.part)
                for each in message.spans
            ]
        ),
        tuple(message.inputs),
    )
    if not (group.indices or group.ranges or group.spans or group.inputs):
        raise InputError(field, "names no entry; set one of indices, ranges, spans, inputs")
    return group


def _check_groups(groupings: Sequence[attention_pb2.Grouping], field: str) -> None:
    """Check how much is grouped before any of it is looked at."""
    if len(groupings) > MOST_GROUPINGS:
        raise InputError(field, f"has {len(groupings)} entries; at most {MOST_GROUPINGS} are allowed")
    for place, each in enumerate(groupings):
        if not 1 <= len(each.groups) <= MOST_GROUPS:
            path = f"{field}[{place}].groups"
            raise InputError(path, f"has {len(each.groups)} entries; there may be 1 to {MOST_GROUPS}")
    groups = [group for each in groupings for group in each.groups]
    indices = sum(len(each.indices) + len(each.ranges) for each in groups)
    if indices > MOST_INDICES:
        raise InputError(field, f"have {indices} indices and ranges; at most {MOST_INDICES} are allowed")
    spans = sum(len(each.spans) + len(each.inputs) for each in groups)
    if spans > MOST_SPANS:
        raise InputError(field, f"have {spans} spans and inputs; at most {MOST_SPANS} are allowed")


def _pooling(message: attention_pb2.Pool, field: str) -> Pooling:
    if not 1 <= message.size <= LARGEST_POOL:
        raise InputError(f"{field}.size", f"is {message.size}; it may be from 1 to {LARGEST_POOL}")
    if message.reduction not in _POOL_REDUCTIONS:
        raise InputError(f"{field}.reduction", f"has no value {message.reduction}")
    return Pooling(message.size, _POOL_REDUCTIONS[message.reduction])


def _selections(messages: Sequence[attention_pb2.MapSelection], field: str) -> tuple[Selection, ...]:
    if len(messages) > MOST_SELECTIONS:
        raise InputError(field, f"has {len(messages)} entries; at most {MOST_SELECTIONS} are allowed")
    indices = sum(len(each.layers) + len(each.heads) + len(each.queries) + len(each.keys) for each in messages)
    if indices > MOST_INDICES:
        raise InputError(field, f"has {indices} indices; at most {MOST_INDICES} are allowed")
    names = sum(len(each.names) for each in messages)
    if names > MOST_NAMES:
        raise InputError(field, f"has {names} names; at most {MOST_NAMES} are allowed")
    for place, each in enumerate(messages):
        for number, name in enumerate(each.names):
            if len(name) > LONGEST_NAME:
                path = f"{field}[{place}].names[{number}]"
                raise InputError(path, f"has {len(name)} characters; at most {LONGEST_NAME} are allowed")
    return tuple(
        Selection(tuple(each.names), tuple(each.layers), tuple(each.heads), tuple(each.queries), tuple(each.keys))
        for each in messages
    )


def _stops(stops: Sequence[str], field: str) -> tuple[str, ...]:
    if len(stops) > MOST_STOPS:
        raise InputError(field, f"has {len(stops)} entries; at most {MOST_STOPS} are allowed")
    for place, stop in enumerate(stops):
        if not 1 <= len(stop) <= LONGEST_STOP:
            raise InputError(f"{field}[{place}]", f"has {len(stop)} characters; it may have 1 to {LONGEST_STOP}")
    return tuple(stops)
