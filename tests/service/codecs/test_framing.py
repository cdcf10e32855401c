"""Messages framed by hand are those that protobuf would have written."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn
from numpy.typing import NDArray

from limelight.v1 import attention_pb2, model_pb2, service_pb2, values_pb2
from limelight_bundle.maps import MapWeights
from limelight_bundle.wire import DTYPES, to_tensor
from limelight_service.attention.options import Encoding, HeadReduction, Options, Pooling, PoolReduction, Selection
from limelight_service.attention.plan import plan_attention
from limelight_service.codecs.framing import Frame
from limelight_service.codecs.v1.maps import REDUCTIONS, frame_map
from limelight_service.engine.attention.apply import apply
from limelight_service.engine.reduction import map_result
from limelight_service.ipc.boundary import MapResult
from tests.service.attention.descriptions import keyed, labels_of, map_of

ENCODINGS = st.sampled_from(list(Encoding))


def slices_of(array: NDArray[Any]) -> st.SearchStrategy[NDArray[Any]]:
    """Parts of an array that share its memory: steps, turned axes."""
    places = st.tuples(*(st.slices(size) for size in array.shape))
    return st.tuples(places, st.permutations(range(array.ndim))).map(lambda each: array[each[0]].transpose(each[1]))


ARRAYS = (
    st.sampled_from(list(DTYPES.values()))
    .flatmap(lambda dtype: drawn.arrays(dtype, drawn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)))
    .flatmap(slices_of)
)


@given(st.lists(ARRAYS, max_size=6))
def test_arrays_are_framed_as_protobuf_writes_them(arrays: list[NDArray[Any]]) -> None:
    graph, outer = Frame(values_pb2.Graph(node_names=["n"]).SerializeToString()), Frame()
    value = values_pb2.Value(graph=values_pb2.Graph(node_names=["n"]))
    for array, (name, number) in zip(arrays, [("nodes", 1), ("edges", 2), ("edge_features", 3)], strict=False):
        graph.put_tensor(number, array)
        getattr(value.graph, name).CopyFrom(to_tensor(array))
    outer.put(values_pb2.Value.GRAPH_FIELD_NUMBER, graph)
    assert values_pb2.Value.FromString(outer.joined()) == value
    assert len(outer.joined()) == outer.size


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 2_097_152])
def test_lengths_of_every_number_of_bytes_are_framed(size: int) -> None:
    array = np.arange(size).astype(np.uint8)
    frame = Frame()
    frame.put_tensor(service_pb2.Embedding.VECTOR_FIELD_NUMBER, array)
    assert frame.joined() == service_pb2.Embedding(vector=to_tensor(array)).SerializeToString()


def test_elements_are_sent_little_endian() -> None:
    frame = Frame()
    frame.put_tensor(service_pb2.Embedding.VECTOR_FIELD_NUMBER, np.array([1, 2], ">f4"))
    vector = service_pb2.Embedding.FromString(frame.joined()).vector
    assert (vector.data_type, vector.data) == (values_pb2.DATA_TYPE_FLOAT32, np.array([1, 2], "<f4").tobytes())


def test_what_is_framed_is_copied_when_it_is_joined_and_not_before() -> None:
    array, frame = np.zeros((4, 4), np.float32), Frame()
    frame.put_tensor(service_pb2.Embedding.VECTOR_FIELD_NUMBER, array[:, :3])
    array += 1
    data = frame.joined()
    array += 1
    assert service_pb2.Embedding.FromString(data).vector == to_tensor(np.ones((4, 3), np.float32))


@st.composite
def described_maps(draw: st.DrawFn) -> tuple[model_pb2.MapDescription, MapWeights, dict[str, int]]:
    """A map of any form, and the sizes of its axes."""
    heads, queries, keys, features = (draw(st.integers(low, 4)) for low in (1, 1, 1, 0))
    form = draw(st.sampled_from([model_pb2.MAP_FORM_DENSE, model_pb2.MAP_FORM_EDGES]))
    described = map_of(
        draw(st.sampled_from(["encoder.2.self", "pool"])),
        heads=heads,
        query_labels="queries",
        key_labels="keys",
        form=form,
        features=features,
        head_labels=draw(st.sampled_from(["", "heads"])),
        normalised=draw(st.booleans()),
    )
    random = np.random.default_rng(draw(st.integers(0, 99)))
    weights = random.random((heads, queries + 1, keys + 1, *([features] if features else [])), np.float32)
    weights = weights[:, :queries, :keys]  # as a batch with padding brings it
    sizes = {"queries": queries, "keys": keys}
    if form == model_pb2.MAP_FORM_DENSE:
        return described, MapWeights(weights), sizes
    query, key = np.nonzero(random.random((queries, keys)) < 0.7)
    return described, MapWeights(weights[:, query, key], query.astype(np.int32), key.astype(np.int32)), sizes


def map_message(finished: MapResult, described: model_pb2.MapDescription, quantity: int) -> attention_pb2.AttentionMap:
    """Build a map as protobuf itself does, field by field."""
    message = attention_pb2.AttentionMap(name=described.name, stack=described.stack, kind=described.kind)
    message.quantity = quantity  # type: ignore[assignment]
    if described.HasField("layer"):
        message.layer = described.layer
    message.normalised, message.signed = finished.normalised, finished.signed
    message.query_labels, message.key_labels = finished.query_labels, finished.key_labels
    message.head_labels, message.feature_labels = described.head_labels, described.feature_labels
    message.head_reduction = REDUCTIONS[finished.head_reduction]
    message.heads.extend(finished.heads)
    message.queries.extend([] if finished.queries is None else finished.queries.tolist())
    message.keys.extend([] if finished.keys is None else finished.keys.tolist())
    message.weights.CopyFrom(to_tensor(finished.weights))
    for name in ("scales", "query_index", "key_index", "left_out"):
        array = getattr(finished, name)
        if array is not None:
            getattr(message, name).CopyFrom(to_tensor(array))
    return message


@given(
    described_maps(),
    ENCODINGS,
    st.sampled_from(list(HeadReduction)),
    st.sampled_from([(), (Selection(queries=(0,)),), (Selection(heads=(0,), keys=(-1,)),)]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([None, Pooling(2), Pooling(1, PoolReduction.MEAN)]),
)
def test_a_map_of_any_form_is_framed_as_protobuf_writes_it(
    one: tuple[model_pb2.MapDescription, MapWeights, dict[str, int]],
    encoding: Encoding,
    heads: HeadReduction,
    selections: tuple[Selection, ...],
    top_k: int,
    pool: Pooling | None,
) -> None:
    described, weights, sizes = one
    options = Options(
        encoding=encoding,
        reduce_heads=heads,
        selections=selections,
        top_k=0 if described.features else top_k,
        pool=None if selections else pool,
    )
    plan = plan_attention([described], options)
    (finished,) = apply(plan, keyed({described.name: weights}), labels_of(sizes)).maps
    result = map_result(finished)
    frame = frame_map(result, described, options.quantity)
    assert attention_pb2.AttentionMap.FromString(frame.joined()) == map_message(result, described, options.quantity)
    assert len(frame.joined()) == frame.size
