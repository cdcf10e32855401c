"""From JSON to a message: proto3 JSON, with tensors also as numbers, and errors that name the field.

`google.protobuf.json_format` reads the same, but its messages name Python types and often no field.
"""

import base64
import binascii
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from limelight.v1 import values_pb2
from limelight_bundle.errors import InputError, Path, TooLargeError
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES, array_of_bytes, to_tensor
from limelight_service.codecs.json.numbers import array_of, shown

M = TypeVar("M", bound=Message)
_MOST_MESSAGES = 100_000  # in one list
MOST_VALUES = 1_000_000  # numbers, texts, lists and objects of one request: tens of bytes of memory for each
_MOST_AXES = 9  # as numbers are read; tensors have fewer
_LONGEST = 64  # characters of a name that is repeated to its caller
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,4})?")
_FLOAT32 = float(2**128 - 2**103)  # a number below has a finite nearest float32; the largest is written rounded up
_LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_TENSOR = values_pb2.Tensor.DESCRIPTOR


def parsed(body: bytes) -> Any:
    """Parse JSON.

    Raises:
        InputError: it is none, with the place of the error.
        TooLargeError: it has more values than `MOST_VALUES`.
    """
    if len(body) > MOST_VALUES and (count := sum(map(body.count, (b",", b"[", b"{")))) > MOST_VALUES:  # in texts too
        raise TooLargeError(
            "", f"the request has {count} commas and brackets; at most {MOST_VALUES} are allowed in JSON"
        )
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InputError("", f"the request is not JSON: {error}") from error


def read_message(kind: type[M], value: Any, path: Path = ()) -> M:
    """Read a message. Fields may have their names in the protocol, or those of proto3 JSON.

    Raises: InputError naming the field.
    """
    message = kind()
    _fill(message, value, path)
    return message


def members(descriptor: Any, value: Any, path: Path) -> dict[str, Any]:
    """Give the fields of a message that are set, by their names in the protocol.

    Raises: InputError for what is no object, an unknown name, or two fields of which one can be set.
    """
    if not isinstance(value, dict):
        raise InputError(path, f"is {shown(value)}; it takes an object of {_listed(descriptor)}")
    known = _fields(descriptor)
    found: dict[str, Any] = {}
    taken: dict[str, str] = {}
    for name, item in value.items():
        if name not in known:
            raise InputError((*path, name[:_LONGEST]), f"is no field here; there are {_listed(descriptor)}")
        if item is None:
            continue
        own, choice = known[name]
        if choice in taken:
            both = f"has {taken[choice]} and {own}" if taken[choice] != own else f"has {own} twice"
            raise InputError(path, f"{both}; set one")
        taken[choice] = own
        found[own] = item
    return found


def entries(value: Any, path: Path) -> list[Any]:
    """Check a list of messages. Raises: InputError, TooLargeError."""
    if not isinstance(value, list):
        raise InputError(path, f"is {shown(value)}; it takes a list")
    if len(value) > _MOST_MESSAGES:
        raise TooLargeError(path, f"has {len(value)} entries; at most {_MOST_MESSAGES} are allowed")
    return value


def scalars(field: FieldDescriptor, value: Any, path: Path) -> list[Any]:
    """Read a list of single values. Raises: InputError."""
    if not isinstance(value, list):
        raise InputError(path, f"is {shown(value)}; it takes a list")
    return [scalar(field, item, (*path, place)) for place, item in enumerate(value)]


def tensor(value: Any, path: Path) -> Array:
    """Read a tensor: numbers in nested lists or in one, or bytes in base64. Raises: InputError."""
    given = members(_TENSOR, value, path)
    data, shape = given.get("data"), given.get("shape")
    stated = None if shape is None else scalars(field_of(_TENSOR, "shape"), shape, (*path, "shape"))
    kind = 0
    if "data_type" in given or isinstance(data, list | int | float | dict):
        kind = _enum(field_of(_TENSOR, "data_type"), given.get("data_type"), (*path, "data_type"))
    is_word = isinstance(data, str) and data in _WORDS and not stated  # of a single number, which is no base64 of one
    if data is None or (isinstance(data, str) and not is_word):
        return array_of_bytes(kind, stated or (), decoded(data or "", (*path, "data")), path)
    dtype = DTYPES.get(kind)
    if dtype is None:
        raise InputError((*path, "data_type"), "is not stated; set it, as DATA_TYPE_FLOAT32")
    array = array_of(data, dtype, (*path, "data"))
    if stated is not None and array.ndim > 1 and array.size and stated != list(array.shape):
        raise InputError((*path, "shape"), f"is {stated!s:.{_LONGEST}}; data has {list(array.shape)}")
    if stated is None and array.ndim < _MOST_AXES:
        return array
    return array_of_bytes(kind, array.shape if stated is None else stated, array.tobytes(), path)


def field_of(descriptor: Any, name: str) -> FieldDescriptor:
    """Give a field by its name in the protocol."""
    found: FieldDescriptor = descriptor.fields_by_name[name]
    return found


@lru_cache(maxsize=256)
def _fields(descriptor: Descriptor) -> Mapping[str, tuple[str, str]]:
    """Give the name in the protocol, and what a field is one choice of, by both names of each field."""
    return {
        name: (each.name, each.name if each.containing_oneof is None else each.containing_oneof.name)
        for each in descriptor.fields
        for name in (each.name, each.json_name)
    }


def _fill(message: Message, value: Any, path: Path) -> None:
    descriptor: Any = message.DESCRIPTOR
    if descriptor is _TENSOR:
        message.CopyFrom(to_tensor(tensor(value, path)))
        return
    for name, item in members(descriptor, value, path).items():
        _set(message, descriptor.fields_by_name[name], item, (*path, name))


def _set(message: Message, field: FieldDescriptor, value: Any, path: Path) -> None:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        if not isinstance(value, dict):
            raise InputError(path, f"is {shown(value)}; it takes an object")
        for key, item in value.items():  # of messages, as every map of the protocol
            _fill(getattr(message, field.name)[key], item, (*path, key))
    elif field.is_repeated:
        found = getattr(message, field.name)
        if entry is None:
            found.extend(scalars(field, value, path))
        else:
            for place, item in enumerate(entries(value, path)):
                _fill(found.add(), item, (*path, place))
    elif entry is not None:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _fill(inner, value, path)
    else:
        setattr(message, field.name, scalar(field, value, path))


def scalar(field: FieldDescriptor, value: Any, path: Path) -> Any:
    """Read a single value. Raises: InputError."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return _enum(field, value, path)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return flag_of(value, path)
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = text_of(value, path)
        return text if field.type == FieldDescriptor.TYPE_STRING else decoded(text, path)
    if kind in _LIMITS:
        return _integer(value, *_LIMITS[kind], path)
    return _float(value, path, _FLOAT32 if kind == FieldDescriptor.CPPTYPE_FLOAT else math.inf)


def text_of(value: Any, path: Path) -> str:
    """Read a text. Raises: InputError."""
    if not isinstance(value, str):
        raise InputError(path, f"is {shown(value)}; it takes a text")
    return value


def flag_of(value: Any, path: Path) -> bool:
    """Read true or false. Raises: InputError."""
    if not isinstance(value, bool):
        raise InputError(path, f"is {shown(value)}; it takes true or false")
    return value


def _enum(field: FieldDescriptor, value: Any, path: Path) -> int:
    kind = field.enum_type
    assert kind is not None
    values = kind.values_by_name
    if isinstance(value, str) and value in values:
        return int(values[value].number)
    if isinstance(value, int) and not isinstance(value, bool) and value in kind.values_by_number:
        return value
    raise InputError(path, f"is {shown(value)}; it takes one of {', '.join(values)}")


def _integer(value: Any, least: int, most: int, path: Path) -> int:
    number = value
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= 20:
        number = int(value)
    if isinstance(value, float) and value.is_integer():
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool):
        raise InputError(path, f"is {shown(value)}; it takes a whole number")
    if not least <= number <= most:
        raise InputError(path, f"is {shown(value)}; it takes {least} to {most}")
    return number


def _float(value: Any, path: Path, most: float) -> float:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError(path, f"is {shown(value)}; it takes a number")
    if abs(value) >= most:
        raise InputError(path, f"is {shown(value)}, which is beyond single precision")
    return float(value)


def decoded(text: str, path: Path) -> bytes:
    """Decode base64, in the alphabet of URLs and without padding too. Raises: InputError."""
    padding = "" if text.endswith("=") else "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + padding, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(path, "is not base64, which bytes are sent in") from error


def _listed(descriptor: Any) -> str:
    return ", ".join(each.name for each in descriptor.fields) or "no field"
