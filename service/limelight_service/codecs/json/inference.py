"""Inference by the REST form of the Open Inference Protocol: requests as JSON, with tensors behind it, and answers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from limelight.base.counts import counted
from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Array
from limelight_service.codecs.answers import check_size
from limelight_service.codecs.json.numbers import array_of, flattened, json_of, shown
from limelight_service.codecs.json.reading import flag_of, parsed, text_of
from limelight_service.codecs.json.writing import Body, written
from limelight_service.codecs.oip.contents import (
    MOST_AXES,
    InputTensor,
    bytes_array,
    checked_inputs,
    checked_shape,
    input_type,
    raw_array,
    shaped,
)
from limelight_service.codecs.oip.datatypes import BYTES
from limelight_service.codecs.oip.parameters import Value
from limelight_service.codecs.oip.requests import AskedOutput, InferCall, InferRequest
from limelight_service.codecs.oip.responses import Tensor, infer_answer, raw_contents
from limelight_service.frontend.calls import Inference
from limelight_service.frontend.http.methods import INFERENCE_LENGTH_HEADER, HttpRequest
from limelight_service.frontend.options import MOST_NAMES

_LARGE = 16 * 1024  # bytes of a request from which it is translated on a thread
_LONGEST = 64  # characters of a name that is repeated to its caller
_OF_CONTENTS = ("binary_data", "binary_data_output", "binary_data_size")


@dataclass(frozen=True)
class Binary:
    """Which outputs a caller takes as bytes. named: those for which it says so or not; others as `otherwise`."""

    named: Mapping[str, bool]
    otherwise: bool

    def __contains__(self, name: str) -> bool:
        """True for an output as bytes; what belongs to a map, as its scales, goes with the map."""
        of = next((each for each in self.named if name == each or name.startswith(f"{each}.")), None)
        return self.otherwise if of is None else self.named.get(name, self.named[of])

    @property
    def is_all(self) -> bool:
        """True where nothing is written as numbers."""
        return self.otherwise if not self.named else all(self.named.values())


@dataclass(frozen=True)
class _Parameters:
    """Parameters of a request, an input or an output. of_contents: those that concern the form of contents."""

    path: Path
    others: Mapping[str, Value]
    of_contents: Mapping[str, Any]

    def flag(self, name: str) -> bool:
        """Read true or false; false where it is not set. Raises: InputError."""
        return flag(self.of_contents, name, (*self.path, name))


def read_infer_request(request: HttpRequest) -> tuple[InferRequest, Binary]:
    """Read a request; for any thread.

    Raises: InputError and its kinds, naming the field.
    """
    text, behind = _parts(request)
    content = fields(parsed(text), (), ("id", "parameters", "inputs", "outputs"))
    identity, options = text_of(content.get("id", ""), ("id",)), _parameters(content, ())
    given = _list(content.get("inputs", []), ("inputs",), MOST_NAMES)
    reader = _Behind(behind)
    read = [_input(each, ("inputs", place), reader) for place, each in enumerate(given)]
    inputs = checked_inputs([each.name for each in read], read)
    if reader.left:
        raise InputError("", f"{reader.left} bytes behind the JSON belong to no input")
    outputs, named = [], {}
    otherwise = options.flag("binary_data_output")
    for place, each in enumerate(_list(content.get("outputs", []), ("outputs",), MOST_NAMES)):
        path = ("outputs", place)
        output = fields(each, path, ("name", "parameters"))
        name, own = text_of(output.get("name", ""), (*path, "name")), _parameters(output, path)
        outputs.append(AskedOutput(name, own.others))
        named[name] = own.flag("binary_data") if "binary_data" in own.of_contents else otherwise
    asked = InferRequest(
        identity, options.others, lambda: inputs, outputs, is_large=len(request.body) >= _LARGE, is_raw=True
    )
    return asked, Binary(named, otherwise)


def infer_body(inference: Inference, call: InferCall, binary: Binary) -> Body:
    """Write an answer: its JSON, then the outputs that are taken as bytes. Raises: TooLargeError."""
    answer = infer_answer(inference, call)
    behind: list[Array] = []
    size, outputs = 0, []
    for each in answer.outputs:
        (rows, parameters), kind = each.whole(), each.type
        described: dict[str, Any] = {"name": each.name, "datatype": kind.name, "shape": (len(rows), *rows[0].shape)}
        contents = raw_contents(rows, kind)
        own = sum([one.nbytes for one in contents])
        size += own
        if each.name in binary:
            parameters["binary_data_size"] = own
            behind += contents
        else:
            described["data"] = _data(each, rows)
        outputs.append(described | ({"parameters": parameters} if parameters else {}))
    check_size(size, inference.checked, "outputs")
    head: dict[str, Any] = {"model_name": answer.model, "model_version": str(answer.version)}
    if answer.id:
        head["id"] = answer.id
    return Body(written({**head, "parameters": answer.parameters, "outputs": outputs}), behind)


def fields(value: Any, path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Check an object that may have some fields. Raises: InputError."""
    if not isinstance(value, dict):
        raise InputError(path, f"is {shown(value)}; it takes an object of {', '.join(names)}")
    for name in value:
        if name not in names:
            raise InputError((*path, name[:_LONGEST]), f"is no field here; there are {', '.join(names)}")
    return value


def named(value: Any, path: Path) -> dict[str, Any]:
    """Check an object whose names are its caller's. Raises: InputError."""
    if not isinstance(value, dict):
        raise InputError(path, f"is {shown(value)}; it takes an object")
    if len(value) > MOST_NAMES:
        raise InputError(path, f"has {len(value)} entries; at most {MOST_NAMES} are allowed")
    return value


def flag(options: Mapping[str, Any], name: str, path: Path) -> bool:
    """Read true or false; false where it is not set. Raises: InputError."""
    return flag_of(options.get(name, False), path)


class _Behind:
    """The bytes behind the JSON. left: how many are not taken yet."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    @property
    def left(self) -> int:
        return len(self._data)

    def take(self, size: int) -> bytes:
        found, self._data = bytes(self._data[:size]), self._data[size:]
        return found


def _parts(request: HttpRequest) -> tuple[bytes, memoryview]:
    """Cut a request into its JSON and the bytes behind it. Raises: InputError."""
    stated = request.headers.get(INFERENCE_LENGTH_HEADER)
    if stated is None:
        return request.body, memoryview(b"")
    if not stated.isdecimal() or len(stated) > 10 or int(stated) > len(request.body):
        raise InputError(INFERENCE_LENGTH_HEADER, f"is {stated[:20]!r}; the request has {len(request.body)} bytes")
    length = int(stated)
    return request.body[:length], memoryview(request.body)[length:]


def _input(value: Any, path: Path, behind: _Behind) -> InputTensor:
    given = fields(value, path, ("name", "shape", "datatype", "parameters", "data"))
    name, datatype = text_of(given.get("name", ""), (*path, "name")), given.get("datatype", "")
    sizes = _sizes(given.get("shape", []), (*path, "shape"))
    parameters = _parameters(given, path)
    kind = input_type(text_of(datatype, (*path, "datatype")), parameters.others, path)
    size = parameters.of_contents.get("binary_data_size")
    if size is None and "data" not in given:
        raise InputError((*path, "data"), "is missing, and so is the parameter binary_data_size")
    shape = checked_shape(sizes, (*path, "shape"))
    if size is not None:
        own = (*parameters.path, "binary_data_size")
        if "data" in given:
            raise InputError(own, "is stated beside data; send one of the two")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise InputError(own, f"is {shown(size)}; it takes a number of bytes")
        if size > behind.left:
            raise InputError(own, f"is {size}; {behind.left} bytes are left behind the JSON")
        return InputTensor(name, kind, raw_array(behind.take(size), kind, shape, path), path)
    data = (*path, "data")
    found: tuple[int, ...]
    if kind is BYTES:
        flat, found = flattened(given["data"], data)
        elements = [_element(each, place, data) for place, each in enumerate(flat)]
        count, make = len(flat), partial(bytes_array, elements)
    else:
        array = array_of(given["data"], kind.dtype, data)
        found, count, make = array.shape, array.size, partial(shaped, array)
    if len(found) > 1 and count and found != shape:
        raise InputError(data, f"has the shape {list(found)}, stated is {list(shape)}")
    needed = math.prod(shape)
    if count != needed:
        raise InputError(data, f"has {counted(count, 'element')}; shape {list(shape)} needs {needed}")
    return InputTensor(name, kind, make(shape, data), path)


def _parameters(given: Mapping[str, Any], path: Path) -> _Parameters:
    """Read parameters. Raises: InputError."""
    path = (*path, "parameters")
    value = named(given.get("parameters", {}), path)
    others = {name: each for name, each in value.items() if name not in _OF_CONTENTS}
    for name, each in others.items():
        is_beyond = isinstance(each, int) and not -(2**63) <= each < 2**64
        if is_beyond or not isinstance(each, bool | int | float | str):
            raise InputError((*path, name[:_LONGEST]), f"is {shown(each)}; it takes a number, a text, true or false")
    return _Parameters(path, others, {name: value[name] for name in _OF_CONTENTS if name in value})


def _element(text: Any, place: int, path: Path) -> bytes:
    if not isinstance(text, str):
        raise InputError(path, f"has {shown(text)} as element {place}; BYTES take texts")
    return text.encode()


def _data(tensor: Tensor, rows: Sequence[Array]) -> Any:
    """Give the elements of an output in one list."""
    if tensor.type is BYTES:
        return [element.decode() for row in rows for element in row.reshape(-1)]
    return json_of(np.concatenate([row.reshape(-1) for row in rows]))


def _list(value: Any, path: Path, most: int) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(path, f"is {shown(value)}; it takes a list")
    if len(value) > most:
        raise InputError(path, f"has {len(value)} entries; at most {most} are allowed")
    return value


def _sizes(value: Any, path: Path) -> list[int]:
    for each in _list(value, path, MOST_AXES):
        if isinstance(each, bool) or not isinstance(each, int) or not -(2**63) <= each < 2**63:
            raise InputError(path, f"has {shown(each)}; it takes whole numbers")
    return list(value)
