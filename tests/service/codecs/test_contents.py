"""Arrays of every type go in and come out by the Open Inference Protocol, raw and typed, as they are."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2
from limelight_bundle.rows import Labels
from limelight_bundle.values import Array
from limelight_service.attention.options import HeadReduction
from limelight_service.codecs.oip.contents import decoded_inputs
from limelight_service.codecs.oip.responses import InferAnswer, Tensor, dense, filled, framed
from limelight_service.ipc.boundary import MapResult
from limelight_service.open_inference import open_inference_pb2 as pb
from tests.service.open_inference.calls import TYPES, infer_request, outputs, strings

DTYPES = [np.dtype(name) for name in TYPES]
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def drawn(dtype: np.dtype, shape: list[int], seed: int) -> Array:
    """Draw an array: of any bytes, but for BOOL and BYTES."""
    random = np.random.default_rng(seed)
    count = int(np.prod(shape))
    if dtype.kind == "O":
        return strings([random.bytes(int(random.integers(0, 9))) for _ in range(count)]).reshape(shape)
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    if dtype.kind == "f":
        return random.normal(size=shape).astype(dtype)
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


@settings(max_examples=60)
@given(st.sampled_from(DTYPES), SHAPES, st.integers(0, 2**32), st.booleans())
def test_inputs_are_read_as_they_were_sent(dtype: np.dtype, shape: list[int], seed: int, typed: bool) -> None:
    array = drawn(dtype, shape, seed)
    typed = typed and dtype != np.float16  # which typed contents cannot hold
    (found,) = decoded_inputs(infer_request("model", {"x": array}, typed=typed))
    assert (found.name, found.type.name, found.array.dtype) == ("x", TYPES[dtype.name][0], dtype)
    assert found.array.shape == tuple(shape) and (found.array == array).all()


@settings(max_examples=60)
@given(
    st.sampled_from(DTYPES),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=4),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_outputs_are_written_so_that_their_rows_can_be_cut(
    dtype: np.dtype, shapes: list[tuple[int, int]], seed: int, raw: bool
) -> None:
    rows = [drawn(dtype, list(shape), seed + place) for place, shape in enumerate(shapes)]
    answer = InferAnswer("model", 1, "7", outputs=[Tensor("y", rows), Tensor("z", rows[:1])])
    data = framed(answer, raw).joined()
    response = pb.ModelInferResponse.FromString(data)
    assert bool(response.raw_output_contents) == (raw or dtype == np.float16)
    found, (first, _) = outputs(response), response.outputs
    told = json.loads(first.parameters["limelight_shapes"].string_param or "null")
    assert told == (None if len(set(shapes)) == 1 else [list(shape) for shape in shapes])
    assert found["y"].dtype == dtype and found["z"].shape == (1, *shapes[0])
    for row, expected in zip(found["y"], rows, strict=True):
        cut = tuple(map(slice, expected.shape))
        assert (row[cut] == expected).all()
        rest = row.copy()
        rest[cut] = b"" if dtype.kind == "O" else 0
        assert not rest.any()


def test_rows_are_filled_up_with_zeros_and_with_empty_strings() -> None:
    assert filled([np.ones((1, 2)), np.ones((2, 1))]).tolist() == [[[1, 1], [0, 0]], [[1, 0], [1, 0]]]
    assert filled([strings([b"a"]), strings([b"b", b"c"])]).tolist() == [[b"a", b""], [b"b", b"c"]]


@pytest.mark.parametrize(("queries", "keys"), [(None, None), ([1, 2], None), (None, [0, 2]), ([2], [2])])
def test_edges_stand_at_their_query_and_key(queries: list[int] | None, keys: list[int] | None) -> None:
    axes = {name: Labels(name, attention_pb2.LABEL_KIND_NODES, 3) for name in ("q", "k")}
    edges = [(q, k) for q, k in ((0, 0), (0, 2), (1, 1), (2, 2)) if queries is None or q in queries]
    edges = [(q, k) for q, k in edges if keys is None or k in keys]
    query, key = (np.array([each[axis] for each in edges], np.int32) for axis in (0, 1))
    weights = np.arange(1, 2 * len(edges) + 1, dtype=np.float32).reshape(2, -1)
    chosen = [None if each is None else np.array(each) for each in (queries, keys)]
    found = MapResult("map", False, False, [0, 1], HeadReduction.NONE, "q", "k", weights, *chosen, None, query, key)
    whole = dense(found, axes, absent=-5.0)
    rows, columns = queries or [0, 1, 2], keys or [0, 1, 2]
    for head in range(2):
        for place, q in enumerate(rows):
            for column, k in enumerate(columns):
                wanted = weights[head, edges.index((q, k))] if (q, k) in edges else -5.0
                assert whole[head, place, column] == wanted
