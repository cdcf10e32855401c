"""Graphs over a real socket: answered as NumPy answers them, alone, together and all at once; bad ones refused."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.samples import Sample
from limelight_bundle.values import Graph
from limelight_bundle.wire import instance_to_wire, to_array, to_tensor
from tests.kit import bundles
from tests.kit.serving import Running, attend, predict, refusal

SAME_SERVER = [HealthCheck.function_scoped_fixture]


@st.composite
def graphs(draw: st.DrawFn, most: int = 8) -> Graph:
    """One node or several, without edges, with some, with loops, in one direction or both."""
    nodes = draw(st.integers(1, most))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=16, unique=True))
    return bundles.drawn_graph(nodes, edges, seed=draw(st.integers(0, 1000)))


def instances(drawn: Sequence[Graph]) -> list[values_pb2.Instance]:
    return [instance_to_wire({"graph": each}) for each in drawn]


def assert_attended(result: service_pb2.Attended, graph: Graph) -> None:
    """Compare all of an answer with NumPy's: outputs, classes, edges, their weights, names of nodes."""
    wanted = bundles.web_answer(graph)
    assert_predicted(result.prediction, wanted)
    (found,), edges = result.maps, wanted.maps["layer.0"]
    np.testing.assert_array_equal(to_array(found.query_index, ""), edges.query_index)  # type: ignore[arg-type]
    np.testing.assert_array_equal(to_array(found.key_index, ""), edges.key_index)  # type: ignore[arg-type]
    np.testing.assert_allclose(to_array(found.weights, ""), edges.weights, atol=1e-5, rtol=1e-3)
    assert (found.kind, found.query_labels, found.key_labels) == (attention_pb2.MAP_KIND_GRAPH, "nodes", "nodes")
    (names,) = [each for each in result.prediction.label_sets if each.name == "nodes"]
    assert tuple(names.texts) == graph.names and names.size == len(graph.nodes)


def assert_predicted(prediction: service_pb2.Prediction, wanted: Sample) -> None:
    """Compare raw outputs, and the probability of each class of each node and of the graph."""
    for output, array in wanted.outputs.items():
        np.testing.assert_allclose(to_array(prediction.outputs[output], ""), array, rtol=1e-4, atol=1e-5)
    nodes, graph = prediction.results
    assert (nodes.name, nodes.tagging.label_set, graph.name) == ("nodes", "nodes", "graph")
    found = np.zeros_like(wanted.outputs["tags"])
    order = np.array(nodes.tagging.indices).reshape(found.shape)
    np.put_along_axis(found, order, np.array(nodes.tagging.probabilities).reshape(found.shape), axis=1)
    np.testing.assert_allclose(found, bundles.softmax(wanted.outputs["tags"]), rtol=1e-4, atol=1e-5)
    whole = {each.label: each.probability for each in graph.classification.classes}
    expected = bundles.softmax(wanted.outputs["logits"]).tolist()
    assert whole == pytest.approx(dict(zip(bundles.LABELS, expected, strict=True)), rel=1e-4, abs=1e-5)


@settings(max_examples=25, deadline=None, suppress_health_check=SAME_SERVER)
@given(st.lists(graphs(), min_size=1, max_size=6))
def test_graphs_of_one_call_are_answered_each_for_itself(running: Running, drawn: list[Graph]) -> None:
    reply = running.stub.Attend(attend("web", *instances(drawn), outputs=("tags", "logits")))
    for result, graph in zip(reply.results, drawn, strict=True):
        assert set(result.prediction.outputs) == {"tags", "logits"}
        assert_attended(result, graph)


@settings(max_examples=8, deadline=None, suppress_health_check=SAME_SERVER)
@given(st.lists(st.lists(graphs(), min_size=1, max_size=3), min_size=2, max_size=8))
def test_calls_that_come_at_once_are_answered_each_for_itself(running: Running, calls: list[list[Graph]]) -> None:
    def call(place: int) -> Sequence[service_pb2.Attended | service_pb2.Prediction]:
        drawn = instances(calls[place])
        if place % 3 == 2:
            return list(running.stub.Predict(predict("web", *drawn, outputs=("tags", "logits"))).predictions)
        return list(running.stub.Attend(attend("web", *drawn, outputs=("tags", "logits"))).results)

    with ThreadPoolExecutor(len(calls)) as pool:
        for drawn, results in zip(calls, pool.map(call, range(len(calls))), strict=True):
            for result, graph in zip(results, drawn, strict=True):
                if isinstance(result, service_pb2.Attended):
                    assert_attended(result, graph)
                else:
                    assert_predicted(result, bundles.web_answer(graph))


@settings(max_examples=20, deadline=None, suppress_health_check=SAME_SERVER)
@given(graphs(), st.randoms(use_true_random=False))
def test_the_order_of_nodes_decides_nothing_but_the_order_of_answers(
    running: Running, graph: Graph, chance: object
) -> None:
    count = len(graph.nodes)
    order = list(range(count))
    chance.shuffle(order)  # type: ignore[attr-defined]
    place = np.argsort(order)
    moved = Graph(graph.nodes[order], place[graph.edges], None, tuple(graph.names[each] for each in order))
    reply = running.stub.Attend(attend("web", *instances([graph, moved]), outputs=("tags", "logits")))
    before, after = (result.prediction.outputs for result in reply.results)
    np.testing.assert_allclose(to_array(after["tags"], ""), to_array(before["tags"], "")[order], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_array(after["logits"], ""), to_array(before["logits"], ""), rtol=1e-4, atol=1e-5)
    assert by_name(reply.results[0]) == pytest.approx(by_name(reply.results[1]), abs=1e-5, rel=1e-3)


def by_name(result: service_pb2.Attended) -> dict[tuple[str, str, int], float]:
    """The weight of each edge and head, by the names of its nodes."""
    (names,) = [each.texts for each in result.prediction.label_sets if each.name == "nodes"]
    (found,) = result.maps
    queries, keys = to_array(found.query_index, "").tolist(), to_array(found.key_index, "").tolist()
    weights = to_array(found.weights, "")
    return {
        (names[query], names[key], head): float(weights[head, edge])
        for edge, (query, key) in enumerate(zip(queries, keys, strict=True))
        for head in range(len(weights))
    }


CHAIN = bundles.drawn_graph(4, [(0, 1), (1, 2), (2, 3), (3, 1)], seed=3)


def test_a_part_of_the_edges_can_be_asked_for(running: Running) -> None:
    whole = running.stub.Attend(attend("web", *instances([CHAIN]))).results[0].maps[0]
    queries = to_array(whole.query_index, "")
    part = running.stub.Attend(attend("web", *instances([CHAIN]), selections=[{"queries": [1], "heads": [1]}]))
    (found,) = part.results[0].maps
    assert to_array(found.query_index, "").tolist() == [1, 1, 1] and list(found.heads) == [1]
    assert to_array(found.key_index, "").tolist() == [0, 1, 3]
    wanted = to_array(whole.weights, "")[1:, queries == 1]
    np.testing.assert_allclose(to_array(found.weights, ""), wanted, atol=1e-6)


def test_the_size_of_edges_is_known_before_they_are_computed(running: Running) -> None:
    big = bundles.drawn_graph(60, [(a, b) for a in range(30) for b in range(30)], seed=1)
    whole = running.stub.Attend(attend("web", *instances([big])))
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.Attend(attend("web", *instances([big]), max_response_bytes=whole.ByteSize() // 2))
    refused = refusal(caught.value)
    assert (refused.code, refused.field) == ("RESOURCE_EXHAUSTED", "attention")
    stated = int(refused.message.split("needs an answer of ")[1].split()[0])
    assert whole.ByteSize() <= stated <= 1.2 * whole.ByteSize()


def test_tensors_under_their_own_names_are_answered_too(running: Running) -> None:
    wanted = bundles.web_answer(CHAIN)
    sent = {name: values_pb2.Value(tensor=to_tensor(array)) for name, array in wanted.tensors.items()}
    reply = running.stub.Attend(attend("web", values_pb2.Instance(inputs=sent), outputs=("tags",)))
    (result,) = reply.results
    np.testing.assert_allclose(
        to_array(result.prediction.outputs["tags"], ""), wanted.outputs["tags"], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(to_array(result.maps[0].weights, ""), wanted.maps["layer.0"].weights, atol=1e-5)
