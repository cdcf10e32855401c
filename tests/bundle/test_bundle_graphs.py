"""From a graph to its tensors: every way in which it can be wrong, and several in one batch."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.errors import BundleError, InputError, OutOfRangeError
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Graph, Instance, TensorValue, Text
from tests.bundle import small

FLOAT, INT64 = values_pb2.DATA_TYPE_FLOAT32, values_pb2.DATA_TYPE_INT64


def bundle(*, features: int = 0, **read: object) -> bundle_pb2.Bundle:
    """Nodes of 2 features, at most 5; edges of so many features, at most 9."""
    node, edge = model_pb2.Dimension(name="node", maximum=5), model_pb2.Dimension(name="edge", maximum=9)
    size = {"nodes": [node, model_pb2.Dimension(name="feature", size=2)], "sources": [edge], "targets": [edge]}
    if features:
        size["edge_features"] = [edge, model_pb2.Dimension(name="edge_feature", size=features)]
        read["edge_features_tensor"] = "edge_features"
    tensors = [
        model_pb2.TensorDescription(
            name=name, data_type=INT64 if name in ("sources", "targets") else FLOAT, dimensions=dimensions
        )
        for name, dimensions in size.items()
    ]
    step = {"nodes_tensor": "nodes", "sources_tensor": "sources", "targets_tensor": "targets"} | read
    join = bundle_pb2.COLLATION_JOIN
    labels = model_pb2.LabelSetDescription(
        name="papers", kind=attention_pb2.LABEL_KIND_NODES, input="graph", tensor="nodes", dimension="node"
    )
    return bundle_pb2.Bundle(
        description=model_pb2.ModelDescription(
            inputs=[model_pb2.InputDescription(name="graph", kind=model_pb2.INPUT_KIND_GRAPH, tensors=tensors)],
            label_sets=[labels],
        ),
        tensors=[
            bundle_pb2.TensorBinding(
                tensor=name, collation=join, indexes="node" if name in ("sources", "targets") else ""
            )
            for name in size
        ],
        preprocessing=[bundle_pb2.Preprocessing(input="graph", steps=[{"read_graph": step}])],  # type: ignore[list-item]
    )


def preprocessor(**options: Any) -> Preprocessor:
    return Preprocessor.from_parts(bundle(**options), {})


NODES = np.arange(6, dtype=np.float32).reshape(3, 2)
EDGES = np.array([[0, 1, 2], [1, 2, 2]])


def graph(**changes: Any) -> Graph:
    return Graph(**{"nodes": NODES, "edges": EDGES} | changes)


def edges(made: Any) -> list[tuple[int, int]]:
    return list(zip(made.tensors["sources"].tolist(), made.tensors["targets"].tolist(), strict=True))


def test_a_graph_is_taken_apart() -> None:
    made = preprocessor().row({"graph": graph(names=("x", "y", "z"))})
    np.testing.assert_array_equal(made.tensors["nodes"], NODES)
    assert edges(made) == [(0, 1), (1, 2), (2, 2)]
    assert made.tensors["sources"].dtype == made.tensors["targets"].dtype == np.int64
    assert made.sizes == {"node": 3, "feature": 2, "edge": 3}
    papers = made.labels["papers"]
    assert (papers.size, papers.texts, papers.inputs) == (3, ("x", "y", "z"), ("graph",))
    assert preprocessor().row({"graph": graph()}).labels["papers"].texts == ()


def test_edges_that_are_added_stand_behind() -> None:
    assert edges(preprocessor(both_ways=True).row({"graph": graph()})) == [(0, 1), (1, 2), (2, 2), (1, 0), (2, 1)]
    assert edges(preprocessor(self_loops=True).row({"graph": graph()})) == [(0, 1), (1, 2), (2, 2), (0, 0), (1, 1)]
    both = preprocessor(self_loops=True, both_ways=True).row({"graph": graph()})
    assert edges(both) == [(0, 1), (1, 2), (2, 2), (1, 0), (2, 1), (0, 0), (1, 1)]
    assert both.sizes["edge"] == 7


@given(st.integers(1, 5).flatmap(lambda count: st.tuples(
    st.just(count), st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=4))))  # fmt: skip
def test_no_edge_is_added_that_is_there(drawn: tuple[int, set[tuple[int, int]]]) -> None:
    count, pairs = drawn
    sent = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    made = bundle(self_loops=True, both_ways=True)
    for tensor in made.description.inputs[0].tensors:
        for dimension in tensor.dimensions:
            dimension.maximum = 0
    found = edges(Preprocessor.from_parts(made, {}).row({"graph": Graph(np.ones((count, 2), np.float32), sent)}))
    assert len(found) == len(set(found))
    assert set(found) == pairs | {(b, a) for a, b in pairs} | {(node, node) for node in range(count)}


def test_edge_features() -> None:
    features = np.ones((3, 4), np.float32)
    made = preprocessor(features=4).row({"graph": graph(edge_features=features)})
    np.testing.assert_array_equal(made.tensors["edge_features"], features)
    assert made.sizes["edge_feature"] == 4


def test_a_graph_without_edges() -> None:
    lonely = graph(edges=np.zeros((2, 0), np.int64))
    assert preprocessor().row({"graph": lonely}).sizes["edge"] == 0
    assert edges(preprocessor(self_loops=True).row({"graph": lonely})) == [(0, 0), (1, 1), (2, 2)]


I64 = np.int64


@pytest.mark.parametrize(
    ("value", "path", "reason", "kind"),
    [
        (graph(nodes=NODES.astype(np.float64)), ".nodes.data_type", "is FLOAT64; expected FLOAT32", InputError),
        (graph(nodes=NODES[0]), ".nodes.shape", r"has 1 axis; expected \[node, feature\]", InputError),
        (graph(nodes=NODES[:, :1]), ".nodes.shape", "has 1 for feature, which is always 2", InputError),
        (graph(nodes=NODES[:0]), ".nodes.shape", "has size 0 along node", InputError),
        (graph(nodes=np.ones((6, 2), np.float32)), ".nodes.shape", "has 6 for node; at most 5", InputError),
        (graph(nodes=NODES * np.nan), ".nodes.data", "has NaN or infinity", InputError),
        (graph(edges=EDGES.astype(np.int32)), ".edges.data_type", "is not INT64", InputError),
        (graph(edges=EDGES.T.copy()[:, :1]), ".edges.shape", r"is \[3, 1\]; expected \[2, edge\]", InputError),
        (graph(edges=EDGES[0]), ".edges.shape", r"is \[3\]; expected \[2, edge\]", InputError),
        (graph(edges=np.array([[0, 3], [1, 0]])), ".edges.data", r"3 at \[0, 1\]; nodes are 0 to 2", OutOfRangeError),
        (graph(edges=np.array([[0], [-1]])), ".edges.data", r"has -1 at \[1, 0\]", OutOfRangeError),
        (graph(edges=np.array([[2**62], [0]])), ".edges.data", "has 4611686018427387904", OutOfRangeError),
        (graph(edges=np.array([[0, 1, 0], [2, 0, 2]])), ".edges.data", "has the edge from 0 to 2 twice", InputError),
        (graph(edge_features=np.ones((3, 1), np.float32)), ".edge_features", "not used by the model", InputError),
        (graph(names=("x",)), ".node_names", "has 1 name; the graph has 3 nodes", InputError),
        (Text("a"), "", "is text; expected graph", InputError),
    ],
)  # fmt: skip
def test_a_graph_that_is_wrong(value: Graph, path: str, reason: str, kind: type[InputError]) -> None:
    with pytest.raises(kind, match=reason) as caught:
        preprocessor().row({"graph": value}, field=("instances", 1))
    assert caught.value.field == f'instances[1].inputs["graph"]{".graph" if path else ""}{path}'


@pytest.mark.parametrize(
    ("features", "path", "reason"),
    [
        (None, "", "are missing; the model needs edge features"),
        (np.ones((2, 4), np.float32), ".shape", "has 2 rows; the graph has 3 edges"),
        (np.ones((3, 3), np.float32), ".shape", "has 3 for edge_feature, which is always 4"),
        (np.full((3, 4), np.inf, np.float32), ".data", "has NaN or infinity"),
    ],
)
def test_edge_features_that_are_wrong(features: np.ndarray | None, path: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        preprocessor(features=4).row({"graph": graph(edge_features=features)})
    assert caught.value.field == f'inputs["graph"].graph.edge_features{path}'


def test_too_many_edges_with_those_that_are_added() -> None:
    full = np.array([(a, b) for a in range(5) for b in range(5) if a < b]).T[:, :6]
    nodes = np.ones((5, 2), np.float32)
    preprocessor().row({"graph": Graph(nodes, full)})
    with pytest.raises(InputError, match="has 11 edges, with those that the model adds; at most 9 are allowed"):
        preprocessor(self_loops=True).row({"graph": Graph(nodes, full)})


def sent(**changes: np.ndarray) -> Instance:
    arrays = {"nodes": NODES, "sources": EDGES[0], "targets": EDGES[1]} | changes
    return {name: TensorValue(array) for name, array in arrays.items()}


def test_tensors_in_place_of_a_graph() -> None:
    made = preprocessor().row(sent())
    assert edges(made) == [(0, 1), (1, 2), (2, 2)]
    assert (made.labels["papers"].size, made.labels["papers"].texts) == (3, ())
    none = np.zeros(0, I64)
    assert preprocessor().row(sent(sources=none, targets=none)).sizes["edge"] == 0


@pytest.mark.parametrize(
    ("changes", "path", "reason"),
    [
        ({"sources": np.array([0, 1, 3])}, 'inputs["sources"].tensor.data', r"has 3 at \[2\]; nodes are 0 to 2"),
        ({"targets": np.array([0, -1, 2])}, 'inputs["targets"].tensor.data', r"has -1 at \[1\]"),
        ({"targets": np.array([0, 1])}, 'inputs["targets"].tensor.shape', "has 2 for edge where another tensor has 3"),
        ({"sources": np.array([1, 1, 1]), "targets": np.array([2, 2, 2])}, 'inputs["targets"].tensor.data', "twice"),
        ({"nodes": NODES[:0]}, 'inputs["nodes"].tensor.shape', "has size 0 along node"),
    ],
)
def test_tensors_of_a_graph_that_are_wrong(changes: dict[str, np.ndarray], path: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        preprocessor().row(sent(**changes))
    assert caught.value.field == path


def test_what_indexes_another_input_stays_among_its_entries() -> None:
    made = bundle()
    del made.preprocessing[:]
    inputs = made.description.inputs
    for tensor in inputs[0].tensors:
        inputs.add(name=tensor.name, kind=model_pb2.INPUT_KIND_TENSOR, tensors=[tensor])
    del inputs[0]
    made.description.label_sets[0].input = "nodes"
    Preprocessor.from_parts(made, {}).row(sent())
    with pytest.raises(OutOfRangeError, match=r"has 7 at \[0\]; there are 3 for node") as caught:
        Preprocessor.from_parts(made, {}).row(sent(sources=np.array([7, 0, 1])))
    assert caught.value.field == 'inputs["sources"].tensor.data'


@pytest.mark.parametrize(
    ("made", "path", "value", "reason"),
    [
        (bundle(features=2, self_loops=True), "", "", "step 1, read_graph, adds edges, which would have no features"),
        (bundle(features=2, both_ways=True), "", "", "adds edges, which would have no features"),
        (bundle(sources_tensor="ends"), "", "", "outputs the tensor 'ends', which the input does not have"),
        (bundle(nodes_tensor="sources"), "", "", "outputs the tensor 'sources' with 2 axes"),
        (bundle(), "tensors.1.indexes", "", "outputs 'sources', which is joined but does not index the nodes"),
        (bundle(), "description.inputs.0.tensors.2.dimensions.0.name", "other", "outputs edges along different axes"),
    ],
)
def test_a_step_that_does_not_fit(made: bundle_pb2.Bundle, path: str, value: str, reason: str) -> None:
    if path:
        small.put(made, path, value)
    with pytest.raises(BundleError, match=reason):
        Preprocessor.from_parts(made, {})
