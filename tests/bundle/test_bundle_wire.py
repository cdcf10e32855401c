"""Tensors, values and labels to messages and back; every way in which a tensor can be wrong, with its path."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from limelight.v1 import attention_pb2, values_pb2
from limelight_bundle.errors import InputError
from limelight_bundle.rows import Labels
from limelight_bundle.values import Graph, Image, Instance, Pair, Sentences, TensorValue, Text
from limelight_bundle.wire import (
    DTYPES,
    data_type_of,
    instance_from_wire,
    instance_to_wire,
    labels_to_wire,
    to_array,
    to_tensor,
    value_from_wire,
    value_to_wire,
)
from tests.kit.durations import takes_at_most

ARRAYS = st.sampled_from(sorted(DTYPES.values(), key=str)).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)


@given(ARRAYS)
def test_an_array_comes_back_bit_for_bit(array: np.ndarray) -> None:
    back = to_array(to_tensor(array), "x")
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@given(ARRAYS)
def test_order_in_memory_and_byte_order_do_not_matter(array: np.ndarray) -> None:
    turned = np.asfortranarray(array.astype(array.dtype.newbyteorder(">")))
    assert to_tensor(turned).data == to_tensor(array).data
    assert data_type_of(turned) == data_type_of(array)


def test_what_came_off_the_wire_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        to_array(to_tensor(np.zeros(2)), "x")[0] = 1


FLOAT, BOOL = values_pb2.DATA_TYPE_FLOAT32, values_pb2.DATA_TYPE_BOOL


@pytest.mark.parametrize(
    ("kind", "shape", "data", "path", "reason"),
    [
        (values_pb2.DATA_TYPE_UNSPECIFIED, [1], b"", "t.data_type", "is not a known data type"),
        (99, [1], b"", "t.data_type", "is not a known data type"),
        (FLOAT, [2], b"1234", "t.data", r"has 4 bytes; FLOAT32 of shape \[2\] needs 8"),
        (FLOAT, [], b"", "t.data", r"has 0 bytes; FLOAT32 of shape \[\] needs 4"),
        (FLOAT, [2, -1], b"", "t.shape", "negative"),
        (FLOAT, [-1, -1], b"1234", "t.shape", "negative"),
        (FLOAT, [2**32, 2**32], b"", "t.data", "needs 73786976294838206464"),
        (FLOAT, [2**62, 4], b"", "t.data", "needs"),
        (FLOAT, [2**62, 0], b"", "t.shape", "too large"),
        (FLOAT, [1] * 9, b"1234", "t.shape", "has 9 axes; at most 8"),
        (FLOAT, [0] * 40, b"", "t.shape", "has 40 axes"),
        (BOOL, [2], b"\x01\x02", "t.data", "other than 0 and 1"),
    ],
)
def test_a_tensor_that_is_wrong(kind: int, shape: list[int], data: bytes, path: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        to_array(values_pb2.Tensor(data_type=kind, shape=shape, data=data), "t")  # type: ignore[arg-type]
    assert caught.value.field == path


@given(st.integers(0, 100), st.lists(st.integers(-2, 2**40), max_size=10), st.binary(max_size=40))
def test_no_tensor_raises_anything_but_an_input_error(kind: int, shape: list[int], data: bytes) -> None:
    try:
        array = to_array(values_pb2.Tensor(data_type=kind, shape=shape, data=data), "t")  # type: ignore[arg-type]
    except InputError as error:
        assert error.field.startswith("t.")
    else:
        assert list(array.shape) == shape


def test_many_booleans_are_checked_in_about_one_pass() -> None:
    numbers = np.ones(20_000_000, np.uint8)
    tensor = to_tensor(numbers.astype(bool))
    assert to_array(tensor, "t").all()
    assert takes_at_most(10, lambda: to_array(tensor, "t"), lambda: (numbers > 1).any())


VALUES = st.one_of(
    st.text().map(Text),
    st.lists(st.text(min_size=1)).map(tuple).map(Sentences),
    st.builds(Pair, st.text(), st.text()),
    st.binary().map(Image),
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_an_instance_comes_back(instance: Instance) -> None:
    message = values_pb2.Instance.FromString(instance_to_wire(instance).SerializeToString())
    assert instance_from_wire(message, ("instances", 0)) == instance


def test_a_tensor_value_comes_back() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    back = instance_from_wire(instance_to_wire({"ids": TensorValue(array)}), "")["ids"]
    assert isinstance(back, TensorValue)
    np.testing.assert_array_equal(back.array, array)


@pytest.mark.parametrize("features", [None, np.ones((3, 2), np.float32)])
def test_a_graph_comes_back(features: np.ndarray | None) -> None:
    graph = Graph(np.eye(2, dtype=np.float32), np.array([[0, 1, 1], [0, 0, 1]]), features, ("a", "b"))
    back = value_from_wire(values_pb2.Value.FromString(value_to_wire(graph).SerializeToString()), "v")
    assert isinstance(back, Graph)
    np.testing.assert_array_equal(back.nodes, graph.nodes)
    np.testing.assert_array_equal(back.edges, graph.edges)
    assert back.names == ("a", "b")
    assert (back.edge_features is None) == (features is None)
    if features is not None:
        np.testing.assert_array_equal(back.edge_features, features)


def test_a_document_is_text_or_sentences() -> None:
    whole = values_pb2.Value(document=values_pb2.Document(text="One. Two."))
    assert value_from_wire(whole, "v") == Text("One. Two.")


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (values_pb2.Value(), 'instances[3].inputs["x"]', "has no value; set one of text"),
        (
            values_pb2.Value(graph=values_pb2.Graph()),
            'instances[3].inputs["x"].graph.nodes.data_type',
            "not a known data type",
        ),
        (values_pb2.Value(audio=values_pb2.Audio()), 'instances[3].inputs["x"].audio', "has no content"),
        (
            values_pb2.Value(tensor=values_pb2.Tensor(data_type=FLOAT, shape=[3])),
            'instances[3].inputs["x"].tensor.data',
            "has 0 bytes",
        ),
    ],
)
def test_a_value_that_is_wrong(value: values_pb2.Value, path: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        instance_from_wire(values_pb2.Instance(inputs={"x": value}), ("instances", 3))
    assert caught.value.field == path


def test_labels_keep_everything() -> None:
    labels = Labels(
        "words", attention_pb2.LABEL_KIND_TOKENS, 2, ["a", "<s>"], [0, 1], [1, 1], [7, 2], [False, True], [2, 0],
        "sentences", ("text.first", "text.second"), [0, 1],
    )  # fmt: skip
    message = labels_to_wire(labels)
    assert (message.name, message.kind, message.size, message.parent) == (
        "words", attention_pb2.LABEL_KIND_TOKENS, 2, "sentences",
    )  # fmt: skip
    for column in ("texts", "starts", "ends", "ids", "special", "parents", "inputs", "input_indices"):
        assert list(getattr(message, column)) == list(getattr(labels, column))
    grid = attention_pb2.Grid(rows=2, columns=3, leading=["class"])
    assert labels_to_wire(Labels("cells", attention_pb2.LABEL_KIND_GRID, 7, grid=grid)).grid == grid
