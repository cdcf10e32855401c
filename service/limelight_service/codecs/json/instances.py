"""Instances of limelight.v1 in JSON, read at once: texts and tensors as they are, other values by their message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from limelight.v1 import values_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Audio, Image, Instance, TensorValue, Text, Value
from limelight_bundle.wire import value_from_wire
from limelight_service.codecs.json.numbers import shown
from limelight_service.codecs.json.reading import entries, field_of, members, read_message, scalar, tensor
from limelight_service.codecs.messages import interventions
from limelight_service.frontend.interventions import Intervention
from limelight_service.frontend.schema import ModelSchema

_INSTANCE: Any = values_pb2.Instance.DESCRIPTOR
_VALUE: Any = values_pb2.Value.DESCRIPTOR


@dataclass(frozen=True)
class _Read:
    """One instance."""

    inputs: Instance
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
        kinds = {type(value) for each in self._read for value in each.inputs.values()}
        self._has_files = Image in kinds or Audio in kinds
        self.has_tensors_only = kinds <= {TensorValue}
        self.has_interventions = any(each.interventions for each in self._read)

    def __len__(self) -> int:
        return len(self._read)

    def path(self, place: int) -> Path:
        """Give the path of an instance in the request."""
        return self._read[place].path

    def has_files(self, schema: ModelSchema) -> bool:
        """Tell whether some value is an image or a recording."""
        return self._has_files

    def read(self, place: int, schema: ModelSchema) -> Instance:
        """Give one instance."""
        return self._read[place].inputs

    def interventions(self, place: int) -> Sequence[Intervention]:
        """Translate the interventions of an instance. Raises: InputError: too many, or a tensor is inconsistent."""
        one = self._read[place]
        return interventions(one.interventions, (*one.path, "interventions"))

    def seed(self, place: int) -> int | None:
        """Give the seed of an instance; None where there is none."""
        return self._read[place].seed


def _instance(value: Any, path: Path) -> _Read:
    given = members(_INSTANCE, value, path)
    inputs: Mapping[str, Any] = given.get("inputs", {})
    if not isinstance(inputs, dict):
        raise InputError((*path, "inputs"), f"is {shown(inputs)}; it takes an object")
    read = {name: _value(each, (*path, "inputs", name)) for name, each in inputs.items()}
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


def _value(value: Any, path: Path) -> Value:
    given = members(_VALUE, value, path)
    if "text" in given:
        return Text(scalar(field_of(_VALUE, "text"), given["text"], (*path, "text")))
    if "tensor" in given:
        return TensorValue(tensor(given["tensor"], (*path, "tensor")))
    return value_from_wire(read_message(values_pb2.Value, value, path), path)
