"""The inputs of a request as arrays, from raw or typed contents; detects every inconsistent tensor.

Arrays of BYTES hold objects of type `bytes`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from limelight.base.counts import counted
from limelight_bundle.errors import InputError, Path, TooLargeError
from limelight_bundle.values import Array
from limelight_service.codecs.oip.datatypes import BYTES, DATA_TYPES, DataType
from limelight_service.frontend.options import MOST_NAMES
from limelight_service.open_inference import open_inference_pb2 as pb

MOST_AXES = 9  # one of rows, and those of an instance
_MOST_ELEMENTS = 100_000  # of BYTES, each of which becomes an object
_LENGTH = 4  # bytes that state the length of an element of BYTES
_LONGEST = 64  # characters of a name or type that is repeated to its caller
_RAW = "raw_input_contents"


@dataclass(frozen=True)
class InputTensor:
    """An input of a request. array [row, …]. path: of it in the request."""

    name: str
    type: DataType
    array: Array
    path: Path


def decoded_inputs(message: pb.ModelInferRequest) -> Sequence[InputTensor]:
    """Read the inputs of a request.

    Raises:
        InputError: names the input whose type, shape and contents are inconsistent; inputs that have different numbers
            of rows, raw and typed contents, or one name.
        TooLargeError: more elements of BYTES than allowed.
    """
    raw = message.raw_input_contents
    if message.inputs and raw and len(raw) != len(message.inputs):
        raise InputError(_RAW, f"has {len(raw)} entries; inputs has {len(message.inputs)}")
    return checked_inputs(
        [each.name for each in message.inputs],
        (_decoded(each, place, raw[place] if raw else None) for place, each in enumerate(message.inputs)),
    )


def checked_inputs(names: Sequence[str], inputs: Iterable[InputTensor]) -> Sequence[InputTensor]:
    """Check that inputs go together. names: theirs. Raises: InputError, beside what reading each one raises."""
    if not names:
        raise InputError("inputs", "is empty; send each of the model's inputs")
    if len(names) > MOST_NAMES:
        raise InputError("inputs", f"has {len(names)} entries; at most {MOST_NAMES} are allowed")
    if len({*names}) < len(names):
        place = next(place for place, name in enumerate(names) if name in names[:place])
        raise InputError(("inputs", place, "name"), f"is {names[place][:_LONGEST]!r} a second time")
    found: list[InputTensor] = []
    for each in inputs:
        if found and len(found[0].array) != len(each.array):
            rows = len(found[0].array)
            raise InputError((*each.path, "shape"), f"has {counted(len(each.array), 'row')}; inputs[0] has {rows}")
        found.append(each)
    return found


def input_type(datatype: str, parameters: Iterable[str], path: Path) -> DataType:
    """Give the type of an input. parameters: their names. Raises: InputError for an unknown type or parameter."""
    for name in parameters:
        if name.startswith(("shared_memory_", "limelight_")):
            raise InputError((*path, "parameters", name[:_LONGEST]), "is not supported; send the contents alone")
    kind = DATA_TYPES.get(datatype)
    if kind is None:
        raise InputError((*path, "datatype"), f"is {datatype[:_LONGEST]!r}; it may be {', '.join(DATA_TYPES)}")
    return kind


def raw_array(raw: bytes, kind: DataType, shape: tuple[int, ...], path: Path) -> Array:
    """Read raw contents. Raises: InputError, TooLargeError."""
    return _strings(raw, shape, path) if kind is BYTES else _numbers(raw, kind, shape, path)


def bytes_array(elements: Sequence[bytes], shape: tuple[int, ...], path: Path) -> Array:
    """Make an array of BYTES. Raises: InputError, TooLargeError."""
    _check_count(len(elements), path)
    array = np.empty(len(elements), object)
    array[:] = elements
    return shaped(array, shape, path)


def _decoded(tensor: pb.ModelInferRequest.InferInputTensor, place: int, raw: bytes | None) -> InputTensor:
    path: Path = ("inputs", place)
    kind = input_type(tensor.datatype, tensor.parameters, path)
    shape = checked_shape(tensor.shape, (*path, "shape"))
    if raw is None:
        array = _typed(tensor.contents, kind, shape, (*path, "contents"))
    elif tensor.HasField("contents") and tensor.contents.ListFields():
        raise InputError((*path, "contents"), f"is set beside {_RAW}; send one of the two")
    else:
        array = raw_array(raw, kind, shape, (_RAW, place))
    return InputTensor(tensor.name, kind, array, path)


def checked_shape(shape: Sequence[int], path: Path) -> tuple[int, ...]:
    """Check the sizes that an input states, before anything is made of them. Raises: InputError."""
    if not shape:
        raise InputError(path, "is empty; its first axis counts the rows")
    if len(shape) > MOST_AXES:
        raise InputError(path, f"has {len(shape)} axes; at most {MOST_AXES} are allowed")
    if min(shape) < 0:
        raise InputError(path, f"has a negative size: {list(shape)}")
    if not shape[0]:
        raise InputError(path, f"has no rows: {list(shape)}; send at least one")
    return tuple(shape)


def _numbers(raw: bytes, kind: DataType, shape: tuple[int, ...], path: Path) -> Array:
    expected = math.prod(shape) * kind.dtype.itemsize  # Python integers do not overflow
    if len(raw) != expected:
        raise InputError(path, f"has {len(raw)} bytes; {kind.name} of shape {list(shape)} needs {expected}")
    if kind.dtype == np.bool_ and (np.frombuffer(raw, np.uint8) > 1).any():
        raise InputError(path, "has a byte other than 0 and 1 for BOOL")
    return shaped(np.frombuffer(raw, kind.dtype), shape, path)


def _strings(raw: bytes, shape: tuple[int, ...], path: Path) -> Array:
    count = math.prod(shape)
    _check_count(count, path)
    found = np.empty(count, object)
    place = 0
    for number in range(count):
        end = place + _LENGTH
        length = int.from_bytes(raw[place:end], "little")
        if end > len(raw) or end + length > len(raw):
            raise InputError(path, f"has {len(raw)} bytes, which end within element {number} of {count}")
        place = end + length
        found[number] = raw[end:place]
    if place != len(raw):
        raise InputError(
            path, f"has {len(raw)} bytes; the {counted(count, 'element')} of shape {list(shape)} take {place}"
        )
    return shaped(found, shape, path)


def _typed(contents: pb.InferTensorContents, kind: DataType, shape: tuple[int, ...], path: Path) -> Array:
    if not kind.field:
        raise InputError(path, f"cannot hold {kind.name}; send {_RAW}")
    for descriptor, _ in contents.ListFields():
        if descriptor.name != kind.field:
            raise InputError((*path, descriptor.name), f"does not hold {kind.name}; use {kind.field}")
    values = getattr(contents, kind.field)
    path, count = (*path, kind.field), math.prod(shape)
    if len(values) != count:
        raise InputError(path, f"has {counted(len(values), 'element')}; shape {list(shape)} needs {count}")
    if kind is BYTES:
        return bytes_array(values, shape, path)
    array = np.array(values, np.int64 if kind.dtype.kind in "iu" else kind.dtype)
    if kind.dtype.kind in "iu":
        limits = np.iinfo(kind.dtype)
        outside = (array < limits.min) | (array > limits.max)
        if outside.any():
            place = int(outside.argmax())
            raise InputError((*path, place), f"is {array[place]}; {kind.name} is from {limits.min} to {limits.max}")
        array = array.astype(kind.dtype)
    return shaped(array, shape, path)


def _check_count(count: int, path: Path) -> None:
    if count > _MOST_ELEMENTS:
        raise TooLargeError(path, f"has {count} elements of BYTES; at most {_MOST_ELEMENTS} are allowed")


def shaped(array: Array, shape: tuple[int, ...], path: Path) -> Array:
    """Give an array another shape. Raises: InputError."""
    try:
        return array.reshape(shape)
    except ValueError as error:  # an axis of size 0 beside axes whose product overflows
        raise InputError(path, f"has a shape that is too large: {list(shape)}") from error
