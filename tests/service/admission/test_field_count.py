"""Fields are counted from bytes as they are in the message that the bytes are of."""

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.errors import InputError
from limelight_service.admission.field_count import count_fields

REQUEST = service_pb2.AttendRequest.DESCRIPTOR


def counted(message: Any) -> int:
    """Count as a reader of the message does: what is set, every entry, and everything inside."""
    total = 0
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            total += sum(3 + counted(each) for each in value.values())  # the entry, its key and its value
        elif field.message_type is not None:
            total += sum(1 + counted(each) for each in (value if field.is_repeated else [value]))
        elif not field.is_repeated:
            total += 1
        elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            total += len(value)
        else:
            one = type(message)()
            getattr(one, field.name).extend(value)
            total += 1 + (len(one.SerializeToString()) - 2) // 16
    return total


words = st.text(max_size=5)
indices = st.lists(st.integers(-100, 100), max_size=8)
values = st.one_of(
    words.map(lambda each: values_pb2.Value(text=each)),
    st.lists(words, max_size=4).map(
        lambda each: values_pb2.Value(document=values_pb2.Document(sentences=values_pb2.Sentences(texts=each)))
    ),
    st.binary(max_size=200).map(
        lambda each: values_pb2.Value(tensor=values_pb2.Tensor(data_type=1, shape=[len(each)], data=each))
    ),
)
instances = st.builds(
    values_pb2.Instance, inputs=st.dictionaries(words, values, max_size=3), seed=st.none() | st.integers(0, 2**64 - 1)
)
selections = st.builds(attention_pb2.MapSelection, names=st.lists(words, max_size=3), heads=indices, queries=indices)
requests = st.builds(
    service_pb2.AttendRequest,
    model=st.builds(values_pb2.Model, name=words, version=st.integers(0, 2**31 - 1)),
    instances=st.lists(instances, max_size=4),
    truncate=st.booleans(),
    outputs=st.lists(words, max_size=3),
    attention=st.builds(attention_pb2.AttentionOptions, selections=st.lists(selections, max_size=3)),
)


@given(requests)
def test_as_many_are_counted_as_there_are_and_one_fewer_allowed_is_refused(request: Any) -> None:
    data, many = request.SerializeToString(), counted(request)
    assert count_fields(REQUEST, data, many) == many
    if many:
        with pytest.raises(InputError, match=f"more than {many - 1} fields"):
            count_fields(REQUEST, data, many - 1)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_message_are_counted_to_their_end(data: bytes) -> None:
    assert count_fields(REQUEST, data, 10**6) <= len(data)
    try:
        message = service_pb2.AttendRequest.FromString(data)
    except DecodeError:
        return
    assert counted(message) <= count_fields(REQUEST, data, 10**6) + len(data)
