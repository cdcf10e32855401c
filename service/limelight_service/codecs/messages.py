"""Messages of limelight.v1 that requests of every protocol may have, checked and translated: options, interventions.

gRPC brings them as bytes, HTTP and parameters of the Open Inference Protocol as JSON.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.wire import to_array
from limelight_service.attention.hidden import HiddenOptions, VectorPooling
from limelight_service.attention.options import (
    LONGEST_NAME,
    MOST_INDICES,
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
    check_options,
    check_selections,
)
from limelight_service.frontend.interventions import MOST_INTERVENTIONS, Change, Intervention, KeyFactor
from limelight_service.ipc.boundary import GenerationSettings, Strategy
from limelight_service.platform.numbers import shown

# Bytes of attention options up to which they are translated on the event loop, and kept for the next call: so many.
SMALL_OPTIONS, MOST_OPTIONS = 256, 64
_ATTENTION = "attention"
_MOST_GROUPINGS = 64
_MOST_SPANS = 4_096
_MOST_GROUPS = 1_024
MOST_STOPS = 16
LONGEST_STOP = 256
MOST_BEAMS = 16
MOST_LOGPROBS = 20
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
    attention_pb2.QUANTITY_VALUES: attention_pb2.QUANTITY_VALUES,
}
_STRATEGIES = {
    service_pb2.STRATEGY_UNSPECIFIED: Strategy.GREEDY,
    service_pb2.STRATEGY_GREEDY: Strategy.GREEDY,
    service_pb2.STRATEGY_SAMPLE: Strategy.SAMPLE,
    service_pb2.STRATEGY_BEAM: Strategy.BEAM,
}


_VECTOR_POOLINGS = {
    service_pb2.VECTOR_POOLING_UNSPECIFIED: VectorPooling.NONE,
    service_pb2.VECTOR_POOLING_MEAN: VectorPooling.MEAN,
    service_pb2.VECTOR_POOLING_FIRST: VectorPooling.FIRST,
    service_pb2.VECTOR_POOLING_LAST: VectorPooling.LAST,
}


@dataclass(frozen=True)
class Attention:
    """The attention that a call asks for. options: None for none. limit: bytes of the answer; 0 for the server's.

    is_large: the options are many, and take time again with each instance.
    """

    options: Options | None = None
    limit: int = 0
    is_large: bool = False


NO_ATTENTION = Attention()


def attention_of(message: attention_pb2.AttentionOptions, *, is_large: bool = False) -> Attention:
    """Check and translate the attention options of a request. Raises: InputError naming the option."""
    return Attention(attention_options(message), message.max_response_bytes, is_large)


def attention_options(message: attention_pb2.AttentionOptions) -> Options:
    """Check the attention options of a request.

    Raises: InputError naming the option.
    """
    options = unchecked_options(message)
    check_options(options)
    return options


def unchecked_options(message: attention_pb2.AttentionOptions) -> Options:
    """Translate attention options whose single numbers are checked by `check_options`, once they are complete.

    Raises: InputError naming an option of no known value, or of too many entries.
    """
    for name, known in (("reduce_heads", _REDUCTIONS), ("encoding", _ENCODINGS), ("quantity", _QUANTITIES)):
        if getattr(message, name) not in known:
            raise InputError((_ATTENTION, name), f"has no value {getattr(message, name)}")
    if message.max_response_bytes < 0:
        raise InputError((_ATTENTION, "max_response_bytes"), f"is {message.max_response_bytes}; it may be 0 or more")
    check_selections(message.selections)
    return Options(
        selections=selected(message.selections),
        quantity=_QUANTITIES[message.quantity],
        reduce_heads=_REDUCTIONS[message.reduce_heads],
        rollout=message.rollout,
        query_groups=_groupings(message.query_groups, GroupReduction.MEAN, (_ATTENTION, "query_groups")),
        key_groups=_groupings(message.key_groups, GroupReduction.SUM, (_ATTENTION, "key_groups")),
        pool=_pooling(message.pool) if message.HasField("pool") else None,
        top_k=message.top_k,
        encoding=_ENCODINGS[message.encoding],
        sequences=message.sequences or 1,
    )


def hidden_options(message: service_pb2.HiddenOptions) -> HiddenOptions:
    """Check and translate the options of hidden states. Raises: InputError naming the option."""
    for name in ("stacks", "layers", "positions"):
        count = len(getattr(message, name))
        if count > MOST_INDICES:
            raise InputError(("hidden", name), f"has {count} entries; at most {MOST_INDICES} are allowed")
    if message.top_tokens < 0:
        raise InputError(("hidden", "top_tokens"), f"is {message.top_tokens}; it may be 0 (for vectors) or more")
    if message.pooling not in _VECTOR_POOLINGS:
        raise InputError(("hidden", "pooling"), f"has no value {message.pooling}")
    pooling = _VECTOR_POOLINGS[message.pooling]
    return HiddenOptions(
        tuple(message.stacks), tuple(message.layers), tuple(message.positions), pooling, message.top_tokens
    )


def selected(messages: Iterable[attention_pb2.MapSelection]) -> tuple[Selection, ...]:
    """Translate selections."""
    return tuple(
        [
            Selection(tuple(each.names), tuple(each.layers), tuple(each.heads), tuple(each.queries), tuple(each.keys))
            for each in messages
        ]
    )


def unit_groups(messages: Sequence[values_pb2.Group], path: Path) -> tuple[Group, ...]:
    """Translate the groups that are units. Raises: InputError for too many entries, or a group of none."""
    if len(messages) > _MOST_GROUPS:
        raise InputError(path, f"has {len(messages)} entries; at most {_MOST_GROUPS} are allowed")
    _check_members(messages, path)
    return tuple([_group(each, (*path, place)) for place, each in enumerate(messages)])


def generation_settings(message: service_pb2.GenerationOptions, longest: int) -> GenerationSettings:
    """Check the generation options of a request and fill in the defaults; `longest` is the model's limit of tokens.

    Raises: InputError naming the option.
    """
    strategy = _STRATEGIES.get(message.strategy)
    if strategy is None:
        raise InputError(("generation", "strategy"), f"has no value {message.strategy}")
    for name, value in (("top_k", message.top_k), ("max_new_tokens", message.max_new_tokens)):
        if value < 0:
            raise InputError(("generation", name), f"is {value}; it may be 0 or more")
    temperature = message.temperature if message.HasField("temperature") else 1.0
    if not (math.isfinite(temperature) and temperature >= 0):
        raise InputError(
            ("generation", "temperature"), f"is {shown(temperature)}; it may be 0 (the most probable token) or more"
        )
    top_p = message.top_p if message.HasField("top_p") else 1.0
    if not 0 <= top_p <= 1:
        raise InputError(("generation", "top_p"), f"is {shown(top_p)}; it may be from 0 (the most probable token) to 1")
    penalty = message.length_penalty if message.HasField("length_penalty") else 1.0
    if not 0 <= penalty <= 10:
        raise InputError(("generation", "length_penalty"), f"is {shown(penalty)}; it may be from 0 to 10")
    if not 0 <= message.beams <= MOST_BEAMS:
        raise InputError(
            ("generation", "beams"), f"is {message.beams}; it may be from 0 (for {_DEFAULT_BEAMS}) to {MOST_BEAMS}"
        )
    beams = message.beams or _DEFAULT_BEAMS
    if not 0 <= message.hypotheses <= beams:
        raise InputError(
            ("generation", "hypotheses"), f"is {message.hypotheses}; it may be from 0 (for 1) to beams ({beams})"
        )
    if not 0 <= message.top_logprobs <= MOST_LOGPROBS:
        raise InputError(
            ("generation", "top_logprobs"), f"is {message.top_logprobs}; it may be from 0 (for none) to {MOST_LOGPROBS}"
        )
    return GenerationSettings(
        strategy=strategy,
        temperature=temperature,
        top_k=message.top_k,
        top_p=top_p,
        max_new_tokens=min(message.max_new_tokens or longest, longest),
        stop=_stops(message.stop),
        beams=beams,
        length_penalty=penalty,
        hypotheses=message.hypotheses or 1,
        continue_target=message.continue_target,
        top_logprobs=message.top_logprobs,
    )


def interventions(messages: Sequence[values_pb2.Intervention], path: Path) -> Sequence[Intervention]:
    """Translate the interventions of an instance. Raises: InputError: too many, or a tensor is inconsistent."""
    if len(messages) > MOST_INTERVENTIONS:
        many = f"are {len(messages)}; at most {MOST_INTERVENTIONS} are allowed: name several heads in one"
        raise InputError(path, many)
    return [_intervention(each, (*path, number)) for number, each in enumerate(messages)]


def _intervention(message: values_pb2.Intervention, path: Path) -> Intervention:
    change = message.WhichOneof("change")
    values, factor = None, None
    if change in ("head_scales", "weights"):
        values = to_array(getattr(message, change), (*path, change))
    if change == "key_factor":
        own, given = (*path, change), message.key_factor
        _check_members([given.keys], (*own, "keys"))
        factor = KeyFactor(given.factor, _group(given.keys, (*own, "keys")))
    return Intervention(path, message.map, Change(change or ""), values, message.heads, message.queries, factor)


@dataclass(frozen=True)
class AskedGeneration:
    """Generation options as they were sent, serialised."""

    message: bytes

    def __call__(self, longest: int) -> GenerationSettings:
        """Check them. longest: the model's limit of tokens. Raises: InputError."""
        return generation_settings(service_pb2.GenerationOptions.FromString(self.message), longest)


def _groupings(messages: Sequence[attention_pb2.Grouping], default: GroupReduction, path: Path) -> tuple[Grouping, ...]:
    _check_groups(messages, path)
    found = []
    for place, each in enumerate(messages):
        own = (*path, place)
        if each.reduction not in _GROUP_REDUCTIONS:
            raise InputError((*own, "reduction"), f"has no value {each.reduction}")
        groups = tuple([_group(group, (*own, "groups", number)) for number, group in enumerate(each.groups)])
        found.append(Grouping(own, groups, _GROUP_REDUCTIONS[each.reduction] or default, each.label_set))
    return tuple(found)


def _group(message: values_pb2.Group, path: Path) -> Group:
    if len(message.name) > LONGEST_NAME:
        long = f"has {len(message.name)} characters; at most {LONGEST_NAME} are allowed"
        raise InputError((*path, "name"), long)
    spans = [
        Span(each.start, each.end, each.sentence if each.HasField("sentence") else None, each.part)
        for each in message.spans
    ]
    group = Group(
        message.name,
        tuple(message.indices),
        tuple([(each.start, each.end) for each in message.ranges]),
        tuple(spans),
        tuple(message.inputs),
    )
    if not (group.indices or group.ranges or group.spans or group.inputs):
        raise InputError(path, "names no entry; set one of indices, ranges, spans, inputs")
    return group


def _check_groups(groupings: Sequence[attention_pb2.Grouping], path: Path) -> None:
    """Check how much is grouped before any of it is looked at."""
    if len(groupings) > _MOST_GROUPINGS:
        raise InputError(path, f"has {len(groupings)} entries; at most {_MOST_GROUPINGS} are allowed")
    for place, each in enumerate(groupings):
        if not 1 <= len(each.groups) <= _MOST_GROUPS:
            count = f"has {len(each.groups)} entries; there may be 1 to {_MOST_GROUPS}"
            raise InputError((*path, place, "groups"), count)
    _check_members([group for each in groupings for group in each.groups], path)


def _check_members(groups: Sequence[values_pb2.Group], path: Path) -> None:
    indices = sum([len(each.indices) + len(each.ranges) for each in groups])
    if indices > MOST_INDICES:
        raise InputError(path, f"have {indices} indices and ranges; at most {MOST_INDICES} are allowed")
    spans = sum([len(each.spans) + len(each.inputs) for each in groups])
    if spans > _MOST_SPANS:
        raise InputError(path, f"have {spans} spans and inputs; at most {_MOST_SPANS} are allowed")


def _pooling(message: attention_pb2.Pool) -> Pooling:
    if message.reduction not in _POOL_REDUCTIONS:
        raise InputError((_ATTENTION, "pool", "reduction"), f"has no value {message.reduction}")
    return Pooling(message.size, _POOL_REDUCTIONS[message.reduction])


def _stops(stops: Sequence[str]) -> tuple[str, ...]:
    if len(stops) > MOST_STOPS:
        raise InputError(("generation", "stop"), f"has {len(stops)} entries; at most {MOST_STOPS} are allowed")
    for place, stop in enumerate(stops):
        if not 1 <= len(stop) <= LONGEST_STOP:
            long = f"has {len(stop)} characters; it may have 1 to {LONGEST_STOP}"
            raise InputError(("generation", "stop", place), long)
    return tuple(stops)
