"""Checks the options of a request and turns them into the engine's own types. Field names are paths in the request."""

import math
from collections.abc import Sequence

from bundle.errors import InputError
from limelight.v1 import attention_pb2, service_pb2
from service.attention.options import Encoding, HeadReduction, Options, Selection
from service.engine.types import GenerationSettings, Strategy

# Enough for anything sensible, and little enough that checking it takes no time that others would notice.
MOST_SELECTIONS = 64
MOST_INDICES = 100_000
MOST_NAMES = 1_000
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
    if message.reduce_heads not in _REDUCTIONS:
        raise InputError(f"{field}.reduce_heads", f"has no value {message.reduce_heads}")
    if message.encoding not in _ENCODINGS:
        raise InputError(f"{field}.encoding", f"has no value {message.encoding}")
    if message.top_k < 0:
        raise InputError(f"{field}.top_k", f"is {message.top_k}; it may be 0 (for all) or more")
    if message.max_response_bytes < 0:
        raise InputError(f"{field}.max_response_bytes", f"is {message.max_response_bytes}; it may be 0 or more")
    return Options(
        selections=_selections(message.selections, f"{field}.selections"),
        reduce_heads=_REDUCTIONS[message.reduce_heads],
        rollout=message.rollout,
        top_k=message.top_k,
        encoding=_ENCODINGS[message.encoding],
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
    if not (math.isfinite(message.temperature) and message.temperature >= 0):
        raise InputError(f"{field}.temperature", f"is {message.temperature:g}; it may be 0 (for 1) or more")
    if not 0 <= message.top_p <= 1:
        raise InputError(f"{field}.top_p", f"is {message.top_p:g}; it may be from 0 (for 1) to 1")
    penalty = message.length_penalty if message.HasField("length_penalty") else 1.0
    if not 0 <= penalty <= 10:
        raise InputError(f"{field}.length_penalty", f"is {penalty:g}; it may be from 0 to 10")
    if not 0 <= message.beams <= MOST_BEAMS:
        raise InputError(
            f"{field}.beams", f"is {message.beams}; it may be from 0 (for {_DEFAULT_BEAMS}) to {MOST_BEAMS}"
        )
    beams = message.beams or _DEFAULT_BEAMS
    if not 0 <= message.hypotheses <= beams:
        raise InputError(f"{field}.hypotheses", f"is {message.hypotheses}; it may be from 0 (for 1) to beams ({beams})")
    return GenerationSettings(
        strategy=strategy,
        temperature=message.temperature or 1.0,
        top_k=message.top_k,
        top_p=message.top_p or 1.0,
        max_new_tokens=min(message.max_new_tokens or longest, longest),
        stop=_stops(message.stop, f"{field}.stop"),
        beams=beams,
        length_penalty=penalty,
        hypotheses=message.hypotheses or 1,
    )


def output_names(wanted: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Give the raw outputs to return: those that a request names, or all.

    Raises: InputError for a name that the model lacks.
    """
    for place, name in enumerate(wanted):
        if name not in known:
            raise InputError(f"outputs[{place}]", f"is {name!r}, which the model lacks; it has {', '.join(known)}")
    return tuple(dict.fromkeys(wanted)) if wanted else known


def _selections(messages: Sequence[attention_pb2.MapSelection], field: str) -> tuple[Selection, ...]:
    if len(messages) > MOST_SELECTIONS:
        raise InputError(field, f"has {len(messages)} entries; at most {MOST_SELECTIONS} are allowed")
    indices = sum(len(each.layers) + len(each.heads) + len(each.queries) + len(each.keys) for each in messages)
    if indices > MOST_INDICES:
        raise InputError(field, f"has {indices} indices; at most {MOST_INDICES} are allowed")
    names = sum(len(each.names) for each in messages)
    if names > MOST_NAMES:
        raise InputError(field, f"has {names} names; at most {MOST_NAMES} are allowed")
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
