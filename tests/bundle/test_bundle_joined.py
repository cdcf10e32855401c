"""Batches of graphs: one graph of several parts, which outputs and maps are cut out of again."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.maps import BoundMap
from limelight_bundle.rows import BoundTensor, Row, bound_tensors, collate, cut_outputs, joined_dimensions
from limelight_bundle.v1 import bundle_pb2

FEATURES, HEADS = 3, 2
JOIN = bundle_pb2.COLLATION_JOIN


def tensors() -> dict[str, BoundTensor]:
    """Nodes [node, feature], sources and targets [edge], joined; an optional stacked one beside them."""
    node, edge = model_pb2.Dimension(name="node"), model_pb2.Dimension(name="edge")
    feature = model_pb2.Dimension(name="feature", size=FEATURES)
    descriptions = [
        model_pb2.TensorDescription(name="nodes", data_type=values_pb2.DATA_TYPE_FLOAT32, dimensions=[node, feature]),
        model_pb2.TensorDescription(name="sources", data_type=values_pb2.DATA_TYPE_INT64, dimensions=[edge]),
        model_pb2.TensorDescription(name="targets", data_type=values_pb2.DATA_TYPE_INT64, dimensions=[edge]),
    ]
    bindings = [
        bundle_pb2.TensorBinding(tensor="nodes", collation=JOIN, instance_index="graph_of_node"),
        bundle_pb2.TensorBinding(tensor="sources", collation=JOIN, indexes="node"),
        bundle_pb2.TensorBinding(tensor="targets", collation=JOIN, indexes="node"),
    ]
    return bound_tensors([model_pb2.InputDescription(name="graph", tensors=descriptions)], bindings)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """A graph, with or without edges."""
    nodes = draw(st.integers(1, 5))
    node = st.integers(0, nodes - 1)
    edges = sorted(draw(st.sets(st.tuples(node, node), max_size=8)))
    features = np.random.default_rng(draw(st.integers(0, 1000))).normal(size=(nodes, FEATURES)).astype(np.float32)
    targets, sources = np.array(edges, np.int64).reshape(-1, 2).T
    sizes = {"node": nodes, "edge": len(edges), "feature": FEATURES}
    return Row({"nodes": features, "sources": sources, "targets": targets}, sizes)


@settings(max_examples=60, deadline=None)
@given(st.lists(rows(), min_size=1, max_size=4))
def test_what_is_joined_comes_apart_as_it_was(batch: list[Row]) -> None:
    joined = collate(batch, tensors().values())
    assert joined_dimensions(tensors().values()) == {"node", "edge"}
    assert joined["graph_of_node"].tolist() == [n for n, row in enumerate(batch) for _ in range(row.sizes["node"])]
    dimensions = tensors()["nodes"].description.dimensions
    for row, found in zip(batch, cut_outputs(joined["nodes"], dimensions, batch, {"node"}), strict=True):
        assert np.array_equal(found, row.tensors["nodes"])
    weights = np.stack([np.arange(len(joined["targets"]), dtype=np.float32)] * HEADS, axis=1)
    bound = BoundMap(
        model_pb2.MapDescription(name="layer.0", form=model_pb2.MAP_FORM_EDGES),
        attention_pb2.QUANTITY_WEIGHTS,
        "weights",
        (bundle_pb2.AXIS_EDGE, bundle_pb2.AXIS_HEAD),
        query_index="targets",
        key_index="sources",
        joined=("node", "node"),
    )
    begin = 0
    for row, found in zip(batch, bound.rows({**joined, "weights": weights}, batch), strict=True):
        assert found.query_index is not None and found.key_index is not None
        assert np.array_equal(found.query_index, row.tensors["targets"])
        assert np.array_equal(found.key_index, row.tensors["sources"])
        assert found.weights.tolist() == [list(range(begin, begin + row.sizes["edge"]))] * HEADS
        begin += row.sizes["edge"]


def test_outputs_that_no_joined_axis_counts_have_a_batch_axis() -> None:
    row = Row({}, {"node": 2})
    pooled = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = cut_outputs(pooled, [model_pb2.Dimension(name="class", size=2)], [row, row], {"node"})
    assert [each.tolist() for each in found] == [[1.0, 2.0], [3.0, 4.0]]
