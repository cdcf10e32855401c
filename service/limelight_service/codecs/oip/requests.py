"""Requests for inference as calls of the core: the model's version, the outputs, and the options that parameters state.

Attention is selected by naming a map as an output. Options are checked as those of limelight.v1; what is wrong with one
is told by the parameter that states it.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from limelight.v1 import attention_pb2, service_pb2
from limelight_bundle.errors import InputError, Path, path_text
from limelight_bundle.maps import NORMS, SCORES, VALUES, WEIGHTS
from limelight_bundle.rows import Labels
from limelight_service.attention.options import (
    MOST_INDICES,
    MOST_SELECTIONS,
    Encoding,
    HeadReduction,
    Options,
    Pooling,
    PoolReduction,
    Selection,
    check_options,
    check_selections,
)
from limelight_service.codecs.messages import NO_ATTENTION, AskedGeneration, Attention, unchecked_options
from limelight_service.codecs.oip.contents import InputTensor, decoded_inputs
from limelight_service.codecs.oip.instances import TensorRows
from limelight_service.codecs.oip.outputs import Output, OutputCatalogue, Source
from limelight_service.codecs.oip.parameters import OURS, Parameters, Value, parameter_values
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import MOST_NAMES, CallOptions
from limelight_service.frontend.schema import ModelSchema
from limelight_service.open_inference import open_inference_pb2 as pb

_LARGE = 16 * 1024  # bytes of a request from which it is translated on a thread
_VERSION = re.compile(r"[1-9][0-9]{0,9}")
_LARGEST_VERSION = 2**31 - 1
_MICROSECOND = 1e-6
_LABEL = 24  # bytes of a label beside its text, or of one without
# Parameters of one map, which a call may also state for all of its maps.
_OF_MAP = ("limelight_heads", "limelight_queries", "limelight_keys")
# Parameters of all maps of a call, which an output may state too: one call computes its maps in one way.
_OF_MAPS = ("limelight_top_k", "limelight_reduce_heads", "limelight_encoding", "limelight_quantity", "limelight_pool")
_OF_OUTPUT = frozenset((*_OF_MAP, *_OF_MAPS))
_OF_CALL = _OF_OUTPUT | {
    "limelight_attention",
    "limelight_generation",
    "limelight_seed",
    "limelight_truncate",
    "limelight_max_classes",
}
_NO_SEQUENCES = "is not supported: each request is complete by itself"
_REFUSED_OF_CALL = dict.fromkeys(("sequence_id", "sequence_start", "sequence_end"), _NO_SEQUENCES)
_REFUSED_OF_OUTPUT = {
    **{f"shared_memory_{name}": "is not supported" for name in ("region", "byte_size", "offset")},
    "classification": "is not supported; name a result of the model as the output",
}
_REDUCTIONS = {each.value: each for each in HeadReduction}
_ENCODINGS = {each.value: each for each in Encoding}
_QUANTITIES = {"weights": WEIGHTS, "scores": SCORES, "norms": NORMS, "values": VALUES}


@dataclass(frozen=True)
class AskedOutput:
    """An output that a request names."""

    name: str
    parameters: Mapping[str, Value]


@dataclass(frozen=True)
class InferRequest:
    """A request, whatever form it came in. inputs: reads them. is_large: that takes a while. is_raw: they are raw."""

    id: str
    parameters: Mapping[str, Value]
    inputs: Callable[[], Sequence[InputTensor]]
    outputs: Sequence[AskedOutput]
    is_large: bool
    is_raw: bool

    @property
    def of_call(self) -> Parameters:
        """Its parameters. Raises: InputError for one that there is not."""
        return Parameters(self.parameters, (), _OF_CALL, _REFUSED_OF_CALL)


def request_of(message: pb.ModelInferRequest) -> InferRequest:
    """Take a request from its message."""
    return InferRequest(
        message.id,
        parameter_values(message.parameters),
        partial(decoded_inputs, message),
        [AskedOutput(each.name, parameter_values(each.parameters)) for each in message.outputs[: MOST_NAMES + 1]],
        message.ByteSize() >= _LARGE,
        bool(message.raw_input_contents),
    )


@dataclass(frozen=True)
class InferCall:
    """A request, translated. wanted: outputs to return, in order. asked: what it is made of."""

    request: CallRequest
    wanted: Sequence[Output]
    asked: InferRequest
    paths: "OptionPaths"


@dataclass
class OptionPaths:
    """Paths of a call's options in its request.

    stated: the parameter that states an option, by the option's name; of a selection, by its place and name.
    """

    stated: dict[str | tuple[int, str], Path] = field(default_factory=dict)

    def translated(self, error: InputError) -> InputError:
        """Give an error with its path in the words of this protocol."""
        return type(error)(self._translated(error.path), error.message)

    def _translated(self, path: Path) -> Path:
        match path:
            case ("attention", "selections", int() as place, str() as name, *rest) if OURS + name in _OF_MAP:
                return (*self.stated.get((place, name), ("parameters", OURS + name)), *rest)
            case ("attention", str() as name, *_) if name in self.stated:
                return self.stated[name]
            case ("attention" | "generation" as message, name, *rest):
                return ("parameters", f"{OURS}{message}", name, *rest)
            case ("attention",):
                return ("outputs",)
            case ("generation" | "max_classes" as name,):
                return ("parameters", OURS + name)
            case ("instances",):
                return ("rows",)
        return path


def version_of(text: str, path: str) -> int:
    """Read a version; 0, the default, where it is empty. Raises: InputError."""
    if not text:
        return 0
    if not _VERSION.fullmatch(text) or int(text) > _LARGEST_VERSION:
        raise InputError(path, f"is {text[:20]!r}; it is a whole number from 1, or empty for the default version")
    return int(text)


def infer_call(asked: InferRequest, model: Model, catalogue: OutputCatalogue) -> InferCall:
    """Translate a request; for any thread.

    Raises: InputError and its kinds, naming the input, output or parameter that cannot be met.
    """
    inputs = asked.inputs()
    paths, of_call = OptionPaths(), asked.of_call
    wanted = _wanted(asked.outputs, catalogue)
    generation = of_call.message("limelight_generation", service_pb2.GenerationOptions)
    if generation is not None and generation.top_logprobs:
        raise InputError(of_call.path("limelight_generation"), "has top_logprobs, which no output here has a place for")
    seed = of_call.integer("limelight_seed", 0) if "limelight_seed" in of_call else None
    if seed is not None and not 0 <= seed < 2**64:
        raise InputError(of_call.path("limelight_seed"), f"is {seed}; it is from 0 to 2**64 - 1")
    attention = _attention(asked.outputs, of_call, wanted, paths)
    label_sets = tuple([each.of for each in wanted if each.source is Source.LABEL_SET])
    request = CallRequest(
        model=model,
        version=0,
        instances=TensorRows(inputs, seed),
        encode_labels=partial(_label_room, label_sets),
        options=CallOptions(
            outputs=tuple([each.of for each in wanted if each.source is Source.RAW]),
            max_classes=of_call.small("limelight_max_classes", 0),
            truncate=of_call.flag("limelight_truncate"),
            attention=attention.options,
            generation=None if generation is None else AskedGeneration(generation.SerializeToString()),
            limit=attention.limit,
            label_sets=label_sets,
            is_large=attention.is_large,
            is_rectangular=True,
        ),
    )
    return InferCall(request, wanted, asked, paths)


def deadline_of(asked: InferRequest, call: Call) -> float | None:
    """Give the deadline of a call: its protocol's own, or `timeout` microseconds from now where that is sooner.

    Raises: InputError where `timeout` is no whole number.
    """
    timeout = asked.of_call.integer("timeout", 0)
    if timeout <= 0:
        return call.deadline
    until = time.monotonic() + timeout * _MICROSECOND
    return until if call.deadline is None else min(until, call.deadline)


def _wanted(outputs: Sequence[AskedOutput], catalogue: OutputCatalogue) -> Sequence[Output]:
    if not outputs:
        return catalogue.usual
    if len(outputs) > MOST_NAMES:
        raise InputError("outputs", f"has more than {MOST_NAMES} entries; at most as many are allowed")
    found: dict[str, Output] = {}
    for place, each in enumerate(outputs):
        path = ("outputs", place, "name")
        if each.name in found:
            raise InputError(path, f"is {each.name!r} a second time")
        found[each.name] = catalogue.find(each.name, path)
    return tuple(found.values())


def _attention(
    outputs: Sequence[AskedOutput], of_call: Parameters, wanted: Sequence[Output], paths: OptionPaths
) -> Attention:
    """Put the attention options together; none where no map is named."""
    message = of_call.message("limelight_attention", attention_pb2.AttentionOptions)
    if message is not None and message.selections:
        path = (*of_call.path("limelight_attention"), "selections")
        raise InputError(path, "is not supported: name maps as outputs, with parameters of their own")
    selections: list[Selection] = []
    stated: dict[str, tuple[Any, Path]] = {}
    indices = 0
    for place, (output, given) in enumerate(zip(wanted, outputs, strict=False)):  # none is named where all are returned
        own = Parameters(given.parameters, ("outputs", place), _OF_OUTPUT, _REFUSED_OF_OUTPUT)
        if output.source is not Source.MAP:
            misplaced = next((name for name in _OF_OUTPUT if name in own), None)
            if misplaced is not None:
                raise InputError(own.path(misplaced), f"is for attention maps; {output.name} is none")
            continue
        if len(selections) >= MOST_SELECTIONS:
            raise InputError("outputs", f"name more than {MOST_SELECTIONS} maps; at most as many are allowed in a call")
        chosen: dict[str, tuple[int, ...]] = {}
        for name in _OF_MAP:
            of, option = own if name in own else of_call, name.removeprefix(OURS)
            chosen[option] = tuple(of.indices(name))
            indices += len(chosen[option])
            if indices > MOST_INDICES:
                many = f"makes {indices} indices; at most {MOST_INDICES} are allowed in a call"
                raise InputError(of.path(name), many)
            paths.stated[len(selections), option] = of.path(name)
        selections.append(Selection((output.of,), **chosen))
        for name in _OF_MAPS:
            of = own if name in own else of_call
            value = _option(of, name)
            known, where = stated.setdefault(name, (value, of.path(name)))
            if known != value:
                raise InputError(of.path(name), f"differs from {path_text(where)}: the maps of one call have one value")
    if not selections:
        misplaced = next((name for name in (*_OF_OUTPUT, "limelight_attention") if name in of_call), None)
        if misplaced is not None:
            raise InputError(of_call.path(misplaced), "is for attention maps; name one as an output")
        return NO_ATTENTION
    try:
        base = Options() if message is None else unchecked_options(message)
    except InputError as error:
        raise paths.translated(error) from error
    changed: dict[str, Any] = {"selections": tuple(selections)}
    for name, (value, where) in stated.items():
        if value and value is not HeadReduction.NONE:
            option = name.removeprefix(OURS)
            paths.stated[option] = where
            reduction = PoolReduction.MAX if base.pool is None else base.pool.reduction
            changed[option] = Pooling(value, reduction) if option == "pool" else value
    options = replace(base, **changed)
    try:
        check_options(options)
        check_selections(options.selections)
    except InputError as error:
        raise paths.translated(error) from error
    if options.sequences > 1:
        raise InputError(of_call.path("limelight_attention"), "has sequences: maps here are of the best sequence")
    return Attention(options, 0 if message is None else message.max_response_bytes, is_large=True)


def _option(of: Parameters, name: str) -> Any:
    match name:
        case "limelight_reduce_heads":
            return of.choice(name, _REDUCTIONS)
        case "limelight_encoding":
            return of.choice(name, _ENCODINGS)
        case "limelight_quantity":
            return of.choice(name, _QUANTITIES)
    return of.small(name, 0)


def _label_room(named: Sequence[str], schema: ModelSchema, labels: Labels) -> bytes:
    """Give as many bytes as a label set takes at most once rows are filled up; none where it is not named.

    What is sent is made of `Prediction.axes`: how rows are filled up is known only then.
    """
    if labels.name not in named:
        return b""
    return bytes(2 * sum(len(text.encode()) + _LABEL for text in labels.texts) or _LABEL * labels.size)
