"""From a message to its answer: proto3 JSON with the numbers of its tensors, or with their bytes behind the JSON."""

import base64
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
from google.protobuf import json_format
from google.protobuf.message import Message

from bundle.values import Array
from bundle.wire import DTYPES
from limelight.v1 import values_pb2
from service.codecs.json.numbers import json_of

_DTYPES = {values_pb2.DataType.Name(number): dtype for number, dtype in DTYPES.items()}


def written(value: Any) -> bytes:
    """Write JSON; arrays as nested lists."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def message_json(message: Message) -> bytes:
    """Write a message with the numbers of its tensors, in nested lists."""
    return written(_with_tensors(json_format.MessageToDict(message), json_of))


def message_with_bytes(message: Message) -> tuple[bytes, list[Array]]:
    """Write a message whose tensors have `offset` and `bytes` in place of `data`; gives the arrays, in order.

    offset: where a tensor's bytes begin, counted from the end of the JSON.
    """
    arrays: list[Array] = []
    end = 0

    def placed(array: Array) -> dict[str, int]:
        nonlocal end
        begin, end = end, end + array.nbytes
        arrays.append(array)
        return {"offset": begin, "bytes": array.nbytes}

    return written(_with_tensors(json_format.MessageToDict(message), placed)), arrays


def _with_tensors(value: Any, form: Callable[[Array], Any]) -> Any:
    """Give a message's JSON with another form of its tensors."""
    if isinstance(value, list):
        is_of_messages = bool(value) and isinstance(value[0], dict)
        return [_with_tensors(each, form) for each in value] if is_of_messages else value
    if not isinstance(value, dict):
        return value
    if not _is_tensor(value):
        return {name: _with_tensors(each, form) for name, each in value.items()}
    shape = [int(each) for each in value.get("shape", ())]
    data = base64.b64decode(value.get("data", ""))
    dtype = _DTYPES[value["dataType"]]
    array = np.frombuffer(data, dtype, math.prod(shape)).reshape(shape)
    found = form(array)
    return {"dataType": value["dataType"], "shape": shape, **(found if isinstance(found, dict) else {"data": found})}


def _is_tensor(value: dict[str, Any]) -> bool:
    """Tell a tensor from the descriptions of some, which have a type without shape and data."""
    return isinstance(value.get("dataType"), str) and value.keys() <= {"dataType", "shape", "data"}
