"""Messages as JSON: what is written is read back, and both agree with protobuf's own implementation."""

import base64
import math
from typing import Any

import numpy as np
import orjson
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from limelight.v1 import service_pb2, values_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.wire import DTYPES, to_tensor
from limelight_service.codecs.json.numbers import array_of, json_of
from limelight_service.codecs.json.reading import read_message
from limelight_service.codecs.json.results import result_json
from limelight_service.codecs.json.writing import JsonWriter, described_json, written
from limelight_service.codecs.v1.results import fill_result
from limelight_service.frontend.results import (
    Box,
    Boxes,
    Classes,
    Embedding,
    Number,
    Numbers,
    Sequences,
    Span,
    Spans,
    Tags,
)
from limelight_service.ipc import boundary
from limelight_service.ipc.boundary import FinishReason

KINDS = (service_pb2.PredictRequest, service_pb2.AttendRequest, service_pb2.GenerateRequest, service_pb2.AttendResponse)
ARRAYS = st.sampled_from(sorted(DTYPES.values(), key=str)).flatmap(
    lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32, allow_nan=False),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


@st.composite
def messages(draw: Any, kind: type[Message], depth: int = 4) -> Any:
    """Any message of a type; tensors are arrays."""
    if kind is values_pb2.Tensor:
        return to_tensor(draw(ARRAYS))
    message: Any = kind()
    for field in draw(st.lists(st.sampled_from(tuple(kind.DESCRIPTOR.fields) or (None,)), max_size=4)):
        if field is not None:
            fill(draw, message, field, depth)
    return message


def fill(draw: Any, message: Any, field: FieldDescriptor, depth: int) -> None:
    inner = field.message_type
    if inner is None:
        value = draw(scalars(field))
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    elif depth:
        if inner.GetOptions().map_entry:
            of = inner.fields_by_name["value"].message_type
            getattr(message, field.name)[draw(st.text(max_size=3))].CopyFrom(
                draw(messages(of._concrete_class, depth - 1))
            )
        elif field.is_repeated:
            getattr(message, field.name).append(draw(messages(inner._concrete_class, depth - 1)))
        else:
            getattr(message, field.name).CopyFrom(draw(messages(inner._concrete_class, depth - 1)))


def scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([each.number for each in field.enum_type.values])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=4)
    return _RANGES.get(field.cpp_type, st.text(max_size=4))


ANY = st.sampled_from(KINDS).flatmap(messages)


@settings(max_examples=150, deadline=None)
@given(message=ANY, original=st.booleans())
def test_every_message_of_proto3_json_is_read(message: Message, original: bool) -> None:
    value = json_format.MessageToDict(message, preserving_proto_field_name=original)
    assert read_message(type(message), value) == message


@given(data=st.binary(max_size=8), number=st.floats(0, 2.0**99, width=32))
def test_bytes_without_padding_and_numbers_as_texts_are_read(data: bytes, number: float) -> None:
    unpadded = base64.urlsafe_b64encode(data).decode().rstrip("=")
    assert read_message(values_pb2.Value, {"image": unpadded}).image == data
    for text in (repr(number), f"{number:e}"):
        found = read_message(service_pb2.GenerationOptions, {"temperature": text})
        assert found.temperature == pytest.approx(number, rel=1e-6, abs=1e-38)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_number_of_single_precision_is_read_as_it_is_written(sign: int) -> None:
    largest = float(np.finfo(np.float32).max)
    message = service_pb2.GenerateRequest(generation={"temperature": sign * largest})
    value = json_format.MessageToDict(message)
    assert abs(value["generation"]["temperature"]) > largest  # it is written as 3.4028235e+38
    assert read_message(type(message), value) == message
    assert read_message(type(message), orjson.loads(written(described_json(message, JsonWriter())))) == message
    value["generation"]["temperature"] = sign * 3.4028236e38
    with pytest.raises(InputError, match="beyond single precision"):
        read_message(type(message), value)


@settings(max_examples=150, deadline=None)
@given(message=ANY)
def test_what_is_written_is_read_back(message: Message) -> None:
    expected = without_nan(message)
    found = read_message(type(message), orjson.loads(written(described_json(message, JsonWriter()))))
    assert without_nan(found) == expected


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_one_number_that_is_not_finite_is_no_base64(number: float, dtype: str) -> None:
    tensor = to_tensor(np.array(number, dtype))
    value = orjson.loads(written(described_json(tensor, JsonWriter())))
    assert without_nan(read_message(values_pb2.Tensor, value)) == without_nan(tensor)
    with_bytes = read_message(values_pb2.Tensor, {**value, "data": base64.b64encode(tensor.data).decode()})
    assert with_bytes == tensor


def without_nan(message: Message) -> bytes:
    """A message's bytes with every NaN of its tensors the same: JSON has but one."""
    value = json_format.MessageToDict(message)

    def same(item: Any) -> Any:
        if isinstance(item, list):
            return [same(each) for each in item]
        if isinstance(item, dict) and isinstance(item.get("dataType"), str) and "FLOAT" in item["dataType"]:
            tensor = json_format.ParseDict(item, values_pb2.Tensor())
            array = np.frombuffer(tensor.data, DTYPES[tensor.data_type]).copy()
            array[np.isnan(array)] = math.nan
            return {**item, "data": array.tobytes().hex()}
        return {name: same(each) for name, each in item.items()} if isinstance(item, dict) else item

    return orjson.dumps(same(value), option=orjson.OPT_SORT_KEYS)


@settings(max_examples=100, deadline=None)
@given(array=ARRAYS)
def test_an_array_is_the_same_after_json(array: np.ndarray) -> None:
    value = orjson.loads(written({"data": json_of(array)}))["data"]
    found = array_of(value, array.dtype, "data").reshape(array.shape)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@settings(max_examples=50, deadline=None)
@given(arrays=st.lists(ARRAYS, min_size=1, max_size=3))
def test_bytes_behind_the_json_are_where_it_says(arrays: list[np.ndarray]) -> None:
    writer = JsonWriter(as_bytes=True)
    text = written([writer.tensor(each) for each in arrays])
    behind = b"".join(each.tobytes() for each in writer.arrays)
    for told, array in zip(orjson.loads(text), arrays, strict=True):
        assert told["shape"] == list(array.shape)
        data = behind[told["offset"] : told["offset"] + told["bytes"]]
        assert data == np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("value", [[[]], [[], []], [[[]]]])
def test_axes_of_no_size_are_kept(value: Any) -> None:
    assert array_of(value, np.dtype("<f4"), "data").shape == np.array(value).shape


def test_what_would_be_cut_off_is_refused() -> None:
    with pytest.raises(InputError, match=r"has 65536\.0 as element 0, which is beyond float16"):
        array_of(65536.0, np.dtype("<f2"), "data")


NUMBERS = st.floats(width=32, allow_nan=False).map(lambda number: number + 0.0)  # proto3 tells -0.0 from its default
WORDS = st.text(max_size=3)
EDGES = st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS)


def columns(rows: list[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    """Rows as columns."""
    return [tuple(row[place] for row in rows) for place in range(count)]


RESULTS = st.one_of(
    st.lists(st.tuples(WORDS, st.integers(0, 9), NUMBERS)).map(lambda rows: Classes(*columns(rows, 3))),
    st.lists(st.tuples(WORDS, st.integers(0, 9), NUMBERS), min_size=1).map(
        lambda rows: Tags("tokens", 1, *columns(rows, 3), ((0,) * len(rows), (1,) * len(rows)))
    ),
    npst.arrays(np.float32, 3, elements=NUMBERS).map(Embedding),
    st.lists(st.builds(Number, WORDS, NUMBERS, WORDS)).map(Numbers),
    st.builds(
        Spans,
        st.lists(st.builds(Span, st.integers(0, 9), st.integers(0, 9), NUMBERS, WORDS, WORDS, st.none() | st.just(0))),
        st.none() | NUMBERS,
    ),
    st.builds(
        Boxes, st.just("classes"), st.lists(st.builds(Box, WORDS, st.integers(0, 9), NUMBERS, EDGES, st.integers(0, 9)))
    ),
    st.builds(
        boundary.Sequence, st.just((1, 0)), st.tuples(NUMBERS, NUMBERS), WORDS, st.sampled_from(FinishReason), NUMBERS
    ).map(lambda one: Sequences((one,))),
)


@settings(max_examples=200, deadline=None)
@given(result=RESULTS)
def test_a_typed_result_is_the_json_of_its_message(result: Any) -> None:
    expected = service_pb2.Result()
    fill_result(expected, result)
    writer = JsonWriter()
    found = orjson.loads(written(result_json(result, writer.tensor)))
    as_message = written(described_json(expected, JsonWriter()))
    assert read_message(service_pb2.Result, found) == expected
    assert found.keys() == orjson.loads(as_message).keys()
