"""Instances of limelight.v1 in JSON, read at once: texts and tensors as they are, other values by their message.

Beside the message there is a short form, whose values state no kind: a value alone, `"7 March 2021"`, is that of the
model's only input, and an object without `inputs` has values by the names of inputs, `{"text": "7 March 2021"}`. Such
values are read where the model is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limelight.v1 import model_pb2, values_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Audio, Image, Instance, TensorValue, Text, Value
from limelight_bundle.wire import input_path, value_from_wire
from limelight_service.codecs.json.numbers import shown
from limelight_service.codecs.json.reading import entries, field_of, members, read_message, scalar, tensor
from limelight_service.codecs.messages import interventions
from limelight_service.frontend.interventions import Intervention
from limelight_service.frontend.schema import ModelSchema

_INSTANCE: Any = values_pb2.Instance.DESCRIPTOR
_VALUE: Any = values_pb2.Value.DESCRIPTOR
_BESIDE = ("seed", "interventions")  # fields of an instance in the short form too
_BASE64 = "b64"  # name of bytes in the requests of other servers: {"b64": "…"}
_GRAPH = [name for each in values_pb2.Graph.DESCRIPTOR.fields for name in (each.name, each.json_name)]
_BARE, _BARE_OBJECTS = (str, int, float, list), frozenset({_BASE64, *_GRAPH})  # what a bare value is


@dataclass(frozen=True)
class _Bare:
    """A value of JSON whose kind the model's input decides."""

    value: Any


@dataclass(frozen=True)
class _Read:
    """One instance. inputs: by name; a value alone is that of the model's only input."""

    inputs: Mapping[str, Value | _Bare] | _Bare
    seed: int | None
    interventions: Sequence[values_pb2.Intervention]
    path: Path


class JsonInstances:
    """Instances of a request, an `InstanceSource` of the frontend. size: of the request."""

    def __init__(self, values: Sequence[Any], size: int, path: Path | None = None) -> None:
        """Read them. path: of the only one; None for `instances`. Raises: InputError naming the field."""
        self._read = [
            _instance(each, ("instances", place) if path is None else path) for place, each in enumerate(values)
        ]
        self.size = size
        kinds = {
            type(value)
            for each in self._read
            for value in ((each.inputs,) if isinstance(each.inputs, _Bare) else each.inputs.values())
        }
        self._has_bare = _Bare in kinds
        self._has_files = Image in kinds or Audio in kinds
        self.has_tensors_only = kinds <= {TensorValue}
        self.has_interventions = any(each.interventions for each in self._read)

    def __len__(self) -> int:
        return len(self._read)

    def path(self, place: int) -> Path:
        """Give the path of an instance in the request."""
        return self._read[place].path

    def has_files(self, schema: ModelSchema) -> bool:
        """Tell whether some value is, or may be, an image or a recording."""
        files = (model_pb2.INPUT_KIND_IMAGE, model_pb2.INPUT_KIND_AUDIO)
        return self._has_files or (self._has_bare and any(each.kind in files for each in schema.description.inputs))

    def read(self, place: int, schema: ModelSchema) -> Instance:
        """Give one instance. Raises: InputError for a value that its input does not take."""
        one = self._read[place]
        inputs = one.inputs
        if isinstance(inputs, _Bare):
            inputs = {_only_input(inputs, schema.description.inputs, one.path): inputs}
        if self._has_bare:
            schema.preprocessor.check_names(inputs, one.path)
        return {
            name: _of_input(each.value, name, schema.description.inputs, input_path(one.path, name))
            if isinstance(each, _Bare)
            else each
            for name, each in inputs.items()
        }

    def interventions(self, place: int) -> Sequence[Intervention]:
        """Translate the interventions of an instance. Raises: InputError: too many, or a tensor is inconsistent."""
        one = self._read[place]
        return interventions(one.interventions, (*one.path, "interventions"))

    def seed(self, place: int) -> int | None:
        """Give the seed of an instance; None where there is none."""
        return self._read[place].seed


def _instance(value: Any, path: Path) -> _Read:
    if value is not None and not isinstance(value, dict):
        return _Read(_Bare(value), None, (), path)
    if value and "inputs" not in value:
        beside = {name: value[name] for name in _BESIDE if name in value}
        value = {"inputs": {name: each for name, each in value.items() if name not in _BESIDE}, **beside}
    given = members(_INSTANCE, value, path)
    inputs: Mapping[str, Any] = given.get("inputs", {})
    if not isinstance(inputs, dict):
        raise InputError((*path, "inputs"), f"is {shown(inputs)}; it takes an object")
    read = {name: _value(each, input_path(path, name)) for name, each in inputs.items()}
    seed, changes = given.get("seed"), given.get("interventions")
    if seed is not None:
        seed = scalar(field_of(_INSTANCE, "seed"), seed, (*path, "seed"))
    if changes is None:
        return _Read(read, seed, (), path)
    own = (*path, "interventions")
    made = [
        read_message(values_pb2.Intervention, each, (*own, place)) for place, each in enumerate(entries(changes, own))
    ]
    return _Read(read, seed, made, path)


def _value(value: Any, path: Path) -> Value | _Bare:
    is_bare = value.keys() <= _BARE_OBJECTS if isinstance(value, dict) and value else isinstance(value, _BARE)
    return _Bare(value) if is_bare else _stated(value, path)


def _stated(value: Any, path: Path) -> Value:
    """Read a value that states its kind."""
    given = members(_VALUE, value, path)
    if "text" in given:
        return Text(scalar(field_of(_VALUE, "text"), given["text"], (*path, "text")))
    if "tensor" in given:
        return TensorValue(tensor(given["tensor"], (*path, "tensor")))
    return value_from_wire(read_message(values_pb2.Value, value, path), path)


def _only_input(bare: _Bare, inputs: Sequence[model_pb2.InputDescription], path: Path) -> str:
    """Name the input that a value alone is for. Raises: InputError where the model takes several."""
    taken = [each for each in inputs if not each.optional] or inputs
    if len(taken) == 1:
        return taken[0].name
    long = ", ".join(f'"{each.name}": {{"{_kind_name(each.kind)}": …}}' for each in taken)
    short = ", ".join(f'"{each.name}": …' for each in taken)
    raise InputError(
        path,
        f'is {shown(bare.value)}; the model takes {len(taken)} inputs: {{{short}}}, or long, {{"inputs": {{{long}}}}}',
    )


def _of_input(value: Any, name: str, inputs: Sequence[model_pb2.InputDescription], path: Path) -> Value:
    """Read a value as the kind of its input, or of the input's tensor of this name. Raises: InputError."""
    types = {each.name: each.data_type for one in inputs for each in one.tensors}
    of_name = next((each for each in inputs if each.name == name), None)
    kind = model_pb2.INPUT_KIND_TENSOR if of_name is None else of_name.kind
    if isinstance(value, dict) and kind in (model_pb2.INPUT_KIND_IMAGE, model_pb2.INPUT_KIND_AUDIO):
        value = value.get(_BASE64, value)
    match kind:
        case model_pb2.INPUT_KIND_TENSOR if not isinstance(value, str):
            return TensorValue(tensor({"data_type": types[name], "data": value}, (*path, "tensor")))
        case model_pb2.INPUT_KIND_DOCUMENT:
            stated = {"document": {"sentences": {"texts": value}}} if isinstance(value, list) else {"text": value}
        case model_pb2.INPUT_KIND_PAIR if isinstance(value, list) and len(value) == 2:
            stated = {"pair": dict(zip(("first", "second"), value, strict=True))}
        case model_pb2.INPUT_KIND_AUDIO:
            stated = {"audio": {"wav": value}}
        case model_pb2.INPUT_KIND_TEXT | model_pb2.INPUT_KIND_IMAGE | model_pb2.INPUT_KIND_GRAPH:
            stated = {_kind_name(kind): value}
        case _:
            takes = "numbers" if kind == model_pb2.INPUT_KIND_TENSOR else "a list of two texts"
            raise InputError(path, f"is {shown(value)}; the input takes {takes}")
    return _stated(stated, path)


def _kind_name(kind: int) -> str:
    """Name the field of a value that states a kind."""
    return model_pb2.InputKind.Name(kind).removeprefix("INPUT_KIND_").lower()
