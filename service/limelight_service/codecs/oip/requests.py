"""Requests for inference as calls of the core: the model's version, the outputs, and the options that parameters state.

Attention is selected by naming a map as an output. Options are checked as those of limelight.v1; what is wrong with one
is told by the parameter that states it.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from limelight.v1 import attention_pb2, service_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.rows import Labels
from limelight_service.codecs.oip.contents import decoded_inputs
from limelight_service.codecs.oip.instances import TensorRows
from limelight_service.codecs.oip.outputs import Output, OutputCatalogue, Source
from limelight_service.codecs.oip.parameters import Parameters
from limelight_service.codecs.v1.requests import MOST_INDICES, MOST_SELECTIONS, attention_options, generation_settings
from limelight_service.frontend.call import Call
from limelight_service.frontend.calls import CallRequest
from limelight_service.frontend.models import Model
from limelight_service.frontend.options import CallOptions
from limelight_service.frontend.schema import ModelSchema
from limelight_service.frontend.validation import MOST_NAMES
from limelight_service.ipc.boundary import GenerationSettings
from limelight_service.open_inference import open_inference_pb2 as pb

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
_REDUCTIONS = {
    "none": attention_pb2.HEAD_REDUCTION_UNSPECIFIED,
    "mean": attention_pb2.HEAD_REDUCTION_MEAN,
    "max": attention_pb2.HEAD_REDUCTION_MAX,
}
_ENCODINGS = {
    "float32": attention_pb2.ENCODING_FLOAT32,
    "float16": attention_pb2.ENCODING_FLOAT16,
    "uint8": attention_pb2.ENCODING_UINT8,
}
_QUANTITIES = {
    "weights": attention_pb2.QUANTITY_WEIGHTS,
    "scores": attention_pb2.QUANTITY_SCORES,
    "norms": attention_pb2.QUANTITY_NORMS,
}


@dataclass(frozen=True)
class InferCall:
    """A request, translated. wanted: outputs to return, in order. is_raw: the answer's contents are raw."""

    request: CallRequest
    wanted: Sequence[Output]
    is_raw: bool
    paths: "FieldPaths"


@dataclass
class FieldPaths:
    """Paths of a call's options in its request.

    stated: the parameter that states an option, by the option's path: `attention.top_k`, `0.heads` of the first map.
    """

    stated: dict[str, str] = field(default_factory=dict)

    def translated(self, error: InputError) -> InputError:
        """Give an error with its field in the words of this protocol."""
        return type(error)(self._path(error.field), error.message)

    def _path(self, path: str) -> str:
        if found := _SELECTION.fullmatch(path):
            name, rest = f"limelight_{found[2]}", found[3]
            return self.stated.get(f"{found[1]}.{found[2]}", f'parameters["{name}"]') + rest
        if found := _OPTION.fullmatch(path):
            message, name, rest = found.groups()
            return self.stated.get(f"{message}.{name}") or f'parameters["limelight_{message}"].{name}{rest}'
        if path in ("attention", "generation"):
            return "outputs" if path == "attention" else 'parameters["limelight_generation"]'
        if path == "max_classes":
            return 'parameters["limelight_max_classes"]'
        return "rows" if path == "instances" else path


_SELECTION = re.compile(r"attention\.selections\[(\d+)\]\.(heads|queries|keys)(.*)")
_OPTION = re.compile(r"(attention|generation)\.(\w+)(.*)")


def version_of(text: str, path: str) -> int:
    """Read a version; 0, the default, where it is empty. Raises: InputError."""
    if not text:
        return 0
    if not _VERSION.fullmatch(text) or int(text) > _LARGEST_VERSION:
        raise InputError(path, f"is {text[:20]!r}; it is a whole number from 1, or empty for the default version")
    return int(text)


def infer_call(message: pb.ModelInferRequest, model: Model, catalogue: OutputCatalogue) -> InferCall:
    """Translate a request; for any thread.

    Raises: InputError and its kinds, naming the input, output or parameter that cannot be met.
    """
    inputs = decoded_inputs(message)
    paths = FieldPaths()
    of_call = _of_call(message)
    wanted = _wanted(message, catalogue)
    generation = of_call.message("limelight_generation", service_pb2.GenerationOptions)
    seed = of_call.integer("limelight_seed", 0) if "limelight_seed" in of_call else None
    if seed is not None and not 0 <= seed < 2**64:
        raise InputError(of_call.path("limelight_seed"), f"is {seed}; it is from 0 to 2**64 - 1")
    options = _attention(message, of_call, wanted, paths)
    try:
        attention = None if options is None else attention_options(options)
    except InputError as error:
        raise paths.translated(error) from error
    if attention is not None and attention.sequences > 1:
        raise InputError(of_call.path("limelight_attention"), "has sequences: maps here are of the best sequence")
    label_sets = tuple(each.of for each in wanted if each.source is Source.LABEL_SET)
    request = CallRequest(
        model=model,
        version=0,
        instances=TensorRows(inputs, seed),
        encode_labels=partial(_label_room, label_sets),
        options=CallOptions(
            outputs=tuple(each.of for each in wanted if each.source is Source.RAW),
            max_classes=of_call.small("limelight_max_classes", 0),
            truncate=of_call.flag("limelight_truncate"),
            attention=attention,
            generation=None if generation is None else partial(_generation, generation),
            limit=0 if options is None else options.max_response_bytes,
            label_sets=label_sets,
            is_large=options is not None,
            is_rectangular=True,
        ),
    )
    return InferCall(request, wanted, bool(message.raw_input_contents), paths)


def deadline_of(message: pb.ModelInferRequest, call: Call) -> float | None:
    """Give the deadline of a call: gRPC's own, or `timeout` microseconds from now where that is sooner.

    Raises: InputError where `timeout` is no whole number.
    """
    timeout = _of_call(message).integer("timeout", 0)
    if timeout <= 0:
        return call.deadline
    until = time.monotonic() + timeout * _MICROSECOND
    return until if call.deadline is None else min(until, call.deadline)


def _of_call(message: pb.ModelInferRequest) -> Parameters:
    return Parameters(message.parameters, "", _OF_CALL, _REFUSED_OF_CALL)


def _wanted(message: pb.ModelInferRequest, catalogue: OutputCatalogue) -> Sequence[Output]:
    if not message.outputs:
        return catalogue.usual
    if len(message.outputs) > MOST_NAMES:
        raise InputError("outputs", f"has {len(message.outputs)} entries; at most {MOST_NAMES} are allowed")
    found: dict[str, Output] = {}
    for place, each in enumerate(message.outputs):
        path = f"outputs[{place}].name"
        if each.name in found:
            raise InputError(path, f"is {each.name!r} a second time")
        found[each.name] = catalogue.find(each.name, path)
    return tuple(found.values())


def _attention(
    message: pb.ModelInferRequest, of_call: Parameters, wanted: Sequence[Output], paths: FieldPaths
) -> attention_pb2.AttentionOptions | None:
    """Put the attention options together; None where no map is named."""
    options = of_call.message("limelight_attention", attention_pb2.AttentionOptions) or attention_pb2.AttentionOptions()
    if options.selections:
        path = of_call.path("limelight_attention")
        raise InputError(f"{path}.selections", "is not supported: name maps as outputs, with parameters of their own")
    of_outputs = [
        Parameters(each.parameters, f"outputs[{place}]", _OF_OUTPUT, _REFUSED_OF_OUTPUT)
        for place, each in enumerate(message.outputs)
    ]
    stated: dict[str, tuple[int, str]] = {}
    indices = 0
    for output, own in zip(wanted, of_outputs, strict=False):  # no output is named where all are returned
        if output.source is not Source.MAP:
            misplaced = next((name for name in _OF_OUTPUT if name in own), None)
            if misplaced is not None:
                raise InputError(own.path(misplaced), f"is for attention maps; {output.name} is none")
            continue
        if len(options.selections) >= MOST_SELECTIONS:
            raise InputError("outputs", f"name more than {MOST_SELECTIONS} maps; at most as many are allowed in a call")
        selection = options.selections.add(names=[output.of])
        for name in _OF_MAP:
            of = own if name in own else of_call
            found = of.indices(name)
            indices += len(found)
            if indices > MOST_INDICES:
                raise InputError(
                    of.path(name), f"makes {indices} indices; at most {MOST_INDICES} are allowed in a call"
                )
            getattr(selection, name.removeprefix("limelight_")).extend(found)
            paths.stated[f"{len(options.selections) - 1}.{name.removeprefix('limelight_')}"] = of.path(name)
        for name in _OF_MAPS:
            of = own if name in own else of_call
            value = _option(of, name)
            known, where = stated.setdefault(name, (value, of.path(name)))
            if known != value:
                raise InputError(of.path(name), f"differs from {where}: the maps of one call have one value")
    if not options.selections:
        misplaced = next((name for name in (*_OF_OUTPUT, "limelight_attention") if name in of_call), None)
        if misplaced is not None:
            raise InputError(of_call.path(misplaced), "is for attention maps; name one as an output")
        return None
    for name, (value, where) in stated.items():
        option = name.removeprefix("limelight_")
        if value:
            paths.stated[f"attention.{option}"] = where
            if option == "pool":
                options.pool.size = value
            else:
                setattr(options, option, value)
    return options


def _option(of: Parameters, name: str) -> int:
    match name:
        case "limelight_reduce_heads":
            return of.choice(name, _REDUCTIONS)
        case "limelight_encoding":
            return of.choice(name, _ENCODINGS)
        case "limelight_quantity":
            return of.choice(name, _QUANTITIES)
    return of.small(name, 0)


def _generation(message: service_pb2.GenerationOptions, longest: int) -> GenerationSettings:
    return generation_settings(message, longest)


def _label_room(named: Sequence[str], schema: ModelSchema, labels: Labels) -> bytes:
    """Give as many bytes as a label set takes at most once rows are filled up; none where it is not named.

    What is sent is made of `Prediction.axes`: how rows are filled up is known only then.
    """
    if labels.name not in named:
        return b""
    return bytes(2 * sum(len(text.encode()) + _LABEL for text in labels.texts) or _LABEL * labels.size)
