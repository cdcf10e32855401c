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
from limelight_bundle.errors import InputError, TooLargeError
from limelight_bundle.wire import DTYPES
from limelight_service.codecs.json.numbers import array_of, shown

M = TypeVar("M", bound=Message)
_MOST_MESSAGES = 100_000  # in one list
MOST_VALUES = 1_000_000  # numbers, texts, lists and objects of one request: tens of bytes of memory for each
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
    count = sum(map(body.count, (b",", b"[", b"{")))  # those inside texts too
    if count > MOST_VALUES:
        raise TooLargeError(
            "", f"the request has {count} commas and brackets; at most {MOST_VALUES} are allowed in JSON"
        )
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InputError("", f"the request is not JSON: {error}") from error


def read_message(kind: type[M], value: Any) -> M:
    """Read a message. Fields may have their names in the protocol, or those of proto3 JSON.

    Raises: InputError naming the field.
    """
    message = kind()
    _fill(message, value, "")
    return message


@lru_cache(maxsize=256)
def _fields(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    return {name: each for each in descriptor.fields for name in (each.name, each.json_name)}


def _fill(message: Message, value: Any, path: str) -> None:
    descriptor = message.DESCRIPTOR
    if not isinstance(value, dict):
        raise InputError(path, f"is {shown(value)}; it takes an object of {_listed(descriptor)}")
    if descriptor is _TENSOR:
        value = _with_bytes(value, path)
    known = _fields(descriptor)
    taken: dict[str, str] = {}
    for name, item in value.items():
        field = known.get(name)
        if field is None:
            raise InputError(_below(path, name[:_LONGEST]), f"is no field here; there are {_listed(descriptor)}")
        if item is None:
            continue
        of = field.containing_oneof.name if field.containing_oneof is not None else field.name
        if of in taken:
            both = f"has {taken[of]} and {field.name}" if taken[of] != field.name else f"has {field.name} twice"
            raise InputError(path, f"{both}; set one")
        taken[of] = field.name
        _set(message, field, item, _below(path, field.name))


def _set(message: Message, field: FieldDescriptor, value: Any, path: str) -> None:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        if not isinstance(value, dict):
            raise InputError(path, f"is {shown(value)}; it takes an object")
        for key, item in value.items():  # of messages, as every map of the protocol
            _fill(getattr(message, field.name)[key], item, f'{path}["{key[:_LONGEST]}"]')
    elif field.is_repeated:
        if not isinstance(value, list):
            raise InputError(path, f"is {shown(value)}; it takes a list")
        if entry is not None and len(value) > _MOST_MESSAGES:
            raise TooLargeError(path, f"has {len(value)} entries; at most {_MOST_MESSAGES} are allowed")
        found = getattr(message, field.name)
        for place, item in enumerate(value):
            if entry is not None:
                _fill(found.add(), item, f"{path}[{place}]")
            else:
                found.append(_scalar(field, item, f"{path}[{place}]"))
    elif entry is not None:
        inner = getattr(message, field.name)
        inner.SetInParent()
        _fill(inner, value, path)
    else:
        setattr(message, field.name, _scalar(field, value, path))


def _scalar(field: FieldDescriptor, value: Any, path: str) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return _enum(field, value, path)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        if isinstance(value, bool):
            return value
        raise InputError(path, f"is {shown(value)}; it takes true or false")
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if not isinstance(value, str):
            raise InputError(path, f"is {shown(value)}; it takes a text")
        return value if field.type == FieldDescriptor.TYPE_STRING else decoded(value, path)
    if kind in _LIMITS:
        return _integer(value, *_LIMITS[kind], path)
    return _float(value, path, _FLOAT32 if kind == FieldDescriptor.CPPTYPE_FLOAT else math.inf)


def _enum(field: FieldDescriptor, value: Any, path: str) -> int:
    kind = field.enum_type
    assert kind is not None
    values = kind.values_by_name
    if isinstance(value, str) and value in values:
        return int(values[value].number)
    if isinstance(value, int) and not isinstance(value, bool) and value in kind.values_by_number:
        return value
    raise InputError(path, f"is {shown(value)}; it takes one of {', '.join(values)}")


def _integer(value: Any, least: int, most: int, path: str) -> int:
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


def _float(value: Any, path: str, most: float) -> float:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InputError(path, f"is {shown(value)}; it takes a number")
    if abs(value) >= most:
        raise InputError(path, f"is {shown(value)}, which is beyond single precision")
    return float(value)


def decoded(text: str, path: str) -> bytes:
    """Decode base64, in the alphabet of URLs and without padding too. Raises: InputError."""
    padding = "" if text.endswith("=") else "=" * (-len(text) % 4)
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + padding, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(path, "is not base64, which bytes are sent in") from error


def _with_bytes(value: dict[str, Any], path: str) -> dict[str, Any]:
    """Give a tensor's JSON with the numbers of its data as bytes in base64, and with its shape."""
    data = value.get("data")
    if data is None or isinstance(data, str):
        return value
    field = _fields(_TENSOR)["dataType"]
    named = next((value[name] for name in ("dataType", "data_type") if name in value), None)
    dtype = DTYPES.get(_enum(field, named, _below(path, "data_type")))
    if dtype is None:
        raise InputError(_below(path, "data_type"), "is not stated; set it, as DATA_TYPE_FLOAT32")
    array = array_of(data, dtype, _below(path, "data"))
    shape = value.get("shape")
    if shape is None:
        shape = list(array.shape)
    elif array.ndim > 1 and array.size and isinstance(shape, list):
        field, path = _fields(_TENSOR)["shape"], _below(path, "shape")
        stated = [_scalar(field, each, f"{path}[{place}]") for place, each in enumerate(shape)]
        if stated != list(array.shape):
            raise InputError(path, f"is {stated!s:.{_LONGEST}}; data has {list(array.shape)}")
    return {**value, "shape": shape, "data": base64.b64encode(array.tobytes()).decode()}


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _listed(descriptor: Any) -> str:
    return ", ".join(each.name for each in descriptor.fields) or "no field"
