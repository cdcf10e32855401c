"""The inputs of a request as arrays, from raw or typed contents; detects every inconsistent tensor.

Arrays of BYTES hold objects of type `bytes`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limelight_bundle.errors import InputError, TooLargeError
from limelight_bundle.values import Array
from limelight_service.codecs.oip.datatypes import BYTES, DATA_TYPES, DataType
from limelight_service.frontend.validation import MOST_NAMES
from limelight_service.open_inference import open_inference_pb2 as pb

MOST_AXES = 9  # one of rows, and those of an instance
_MOST_ELEMENTS = 100_000  # of BYTES, each of which becomes an object
_LENGTH = 4  # bytes that state the length of an element of BYTES
_LONGEST = 64  # characters of a name or type that is repeated to its caller
_RAW = "raw_input_contents"


@dataclass(frozen=True)
class InputTensor:
    """An input of a request. array [row, …]. field: its path in the request."""

    name: str
    type: DataType
    array: Array
    field: str


def decoded_inputs(message: pb.ModelInferRequest) -> list[InputTensor]:
    """Read the inputs of a request.

    Raises:
        InputError: names the input whose type, shape and contents are inconsistent; inputs that have different numbers
            of rows, raw and typed contents, or one name.
        TooLargeError: more elements of BYTES than allowed.
    """
    if not message.inputs:
        raise InputError("inputs", "is empty; send each of the model's inputs")
    if len(message.inputs) > MOST_NAMES:
        raise InputError("inputs", f"has {len(message.inputs)} entries; at most {MOST_NAMES} are allowed")
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise InputError(_RAW, f"has {len(raw)} entries; inputs has {len(message.inputs)}")
    names: set[str] = set()
    found: list[InputTensor] = []
    for place, each in enumerate(message.inputs):
        field = f"inputs[{place}]"
        if each.name in names:
            raise InputError(f"{field}.name", f"is {each.name[:_LONGEST]!r} a second time")
        names.add(each.name)
        one = _decoded(each, field, raw[place] if raw else None, f"{_RAW}[{place}]")
        if found and len(found[0].array) != len(one.array):
            raise InputError(f"{field}.shape", f"has {len(one.array)} rows; inputs[0] has {len(found[0].array)}")
        found.append(one)
    return found


def _decoded(
    tensor: pb.ModelInferRequest.InferInputTensor, field: str, raw: bytes | None, raw_field: str
) -> InputTensor:
    for name in tensor.parameters:
        if name.startswith(("shared_memory_", "limelight_")):
            raise InputError(f'{field}.parameters["{name[:_LONGEST]}"]', "is not supported; send the contents alone")
    kind = DATA_TYPES.get(tensor.datatype)
    if kind is None:
        raise InputError(f"{field}.datatype", f"is {tensor.datatype[:_LONGEST]!r}; it may be {', '.join(DATA_TYPES)}")
    shape = checked_shape(tensor.shape, f"{field}.shape")
    if raw is None:
        array = _typed(tensor.contents, kind, shape, f"{field}.contents")
    elif tensor.HasField("contents") and tensor.contents.ListFields():
        raise InputError(f"{field}.contents", f"is set beside {_RAW}; send one of the two")
    elif kind is BYTES:
        array = _strings(raw, shape, raw_field)
    else:
        array = _numbers(raw, kind, shape, raw_field)
    return InputTensor(tensor.name, kind, array, field)


def checked_shape(shape: Sequence[int], field: str) -> tuple[int, ...]:
    """Check the sizes that an input states, before anything is made of them. Raises: InputError."""
    if not shape:
        raise InputError(field, "is empty; its first axis counts the rows")
    if len(shape) > MOST_AXES:
        raise InputError(field, f"has {len(shape)} axes; at most {MOST_AXES} are allowed")
    if min(shape) < 0:
        raise InputError(field, f"has a negative size: {list(shape)}")
    if not shape[0]:
        raise InputError(field, f"has no rows: {list(shape)}; send at least one")
    return tuple(shape)


def _numbers(raw: bytes, kind: DataType, shape: tuple[int, ...], field: str) -> Array:
    expected = math.prod(shape) * kind.dtype.itemsize  # Python integers do not overflow
    if len(raw) != expected:
        raise InputError(field, f"has {len(raw)} bytes; {kind.name} of shape {list(shape)} needs {expected}")
    if kind.dtype == np.bool_ and (np.frombuffer(raw, np.uint8) > 1).any():
        raise InputError(field, "has a byte other than 0 and 1 for BOOL")
    return _shaped(np.frombuffer(raw, kind.dtype), shape, field)


def _strings(raw: bytes, shape: tuple[int, ...], field: str) -> Array:
    count = math.prod(shape)
    _check_count(count, field)
    found = np.empty(count, object)
    place = 0
    for number in range(count):
        end = place + _LENGTH
        length = int.from_bytes(raw[place:end], "little")
        if end > len(raw) or end + length > len(raw):
            raise InputError(field, f"has {len(raw)} bytes, which end within element {number} of {count}")
        place = end + length
        found[number] = raw[end:place]
    if place != len(raw):
        raise InputError(field, f"has {len(raw)} bytes; the {count} elements of shape {list(shape)} take {place}")
    return _shaped(found, shape, field)


def _typed(contents: pb.InferTensorContents, kind: DataType, shape: tuple[int, ...], field: str) -> Array:
    if not kind.field:
        raise InputError(field, f"cannot hold {kind.name}; send {_RAW}")
    for descriptor, _ in contents.ListFields():
        if descriptor.name != kind.field:
            raise InputError(f"{field}.{descriptor.name}", f"does not hold {kind.name}; use {kind.field}")
    values = getattr(contents, kind.field)
    field, count = f"{field}.{kind.field}", math.prod(shape)
    if len(values) != count:
        raise InputError(field, f"has {len(values)} elements; shape {list(shape)} needs {count}")
    if kind is BYTES:
        _check_count(count, field)
        array = np.empty(count, object)
        array[:] = values
        return _shaped(array, shape, field)
    array = np.array(values, np.int64 if kind.dtype.kind in "iu" else kind.dtype)
    if kind.dtype.kind in "iu":
        limits = np.iinfo(kind.dtype)
        outside = (array < limits.min) | (array > limits.max)
        if outside.any():
            place = int(outside.argmax())
            raise InputError(
                f"{field}[{place}]", f"is {array[place]}; {kind.name} is from {limits.min} to {limits.max}"
            )
        array = array.astype(kind.dtype)
    return _shaped(array, shape, field)


def _check_count(count: int, field: str) -> None:
    if count > _MOST_ELEMENTS:
        raise TooLargeError(field, f"has {count} elements of BYTES; at most {_MOST_ELEMENTS} are allowed")


def _shaped(array: Array, shape: tuple[int, ...], field: str) -> Array:
    try:
        return array.reshape(shape)
    except ValueError as error:  # an axis of size 0 beside axes whose product overflows
        raise InputError(field, f"has a shape that is too large: {list(shape)}") from error
