"""From a message to its answer: proto3 JSON with the numbers of its tensors, or with their bytes behind the JSON."""

import base64
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import orjson
from google.protobuf import json_format
from google.protobuf.message import Message

from limelight.v1 import values_pb2
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES
from limelight_service.codecs.json.numbers import json_of

_PLACE = 4  # bytes


def written(value: Any) -> bytes:
    """Write JSON; arrays as nested lists."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def message_json(message: Message) -> bytes:
    """Write a message with the numbers of its tensors, in nested lists. The message is used up."""
    arrays = _taken_out(message)
    return written(_with_tensors(json_format.MessageToDict(message), lambda place: {"data": json_of(arrays[place])}))


def message_with_bytes(message: Message) -> tuple[bytes, list[Array]]:
    """Write a message whose tensors have `offset` and `bytes` in place of `data`; gives the arrays, in order.

    offset: where a tensor's bytes begin, counted from the end of the JSON. The message is used up.
    """
    arrays = _taken_out(message)
    ends = list(accumulate((each.nbytes for each in arrays), initial=0))

    def placed(place: int) -> dict[str, int]:
        return {"offset": ends[place], "bytes": arrays[place].nbytes}

    return written(_with_tensors(json_format.MessageToDict(message), placed)), arrays


def _taken_out(message: Message) -> list[Array]:
    """Take the arrays out of a message, each of whose tensors then has its array's place as data."""
    arrays: list[Array] = []
    todo: list[Any] = [message]
    while todo:
        each = todo.pop()
        if isinstance(each, values_pb2.Tensor):
            arrays.append(np.frombuffer(each.data, DTYPES[each.data_type]).reshape(tuple(each.shape)))
            each.data = (len(arrays) - 1).to_bytes(_PLACE, "little")
            continue
        for field, value in each.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                todo += value.values()
            elif field.is_repeated:
                todo += value
            else:
                todo.append(value)
    return arrays


def _with_tensors(value: Any, form: Callable[[int], dict[str, Any]]) -> Any:
    """Give a message's JSON with another form of its tensors. form: of an array, by its place."""
    if isinstance(value, list):
        is_of_messages = bool(value) and isinstance(value[0], dict)
        return [_with_tensors(each, form) for each in value] if is_of_messages else value
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("dataType"), str) or "data" not in value:
        return {name: _with_tensors(each, form) for name, each in value.items()}
    place = int.from_bytes(base64.b64decode(value["data"]), "little")
    shape = [int(each) for each in value.get("shape", ())]
    return {"dataType": value["dataType"], "shape": shape, **form(place)}
