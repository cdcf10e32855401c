"""A citation graph from the file to the socket: trained, exported, served whole and in parts."""

from pathlib import Path

import numpy as np
import pytest

import limelight
from limelight_bundle.values import Graph
from limelight_export import export_run
from limelight_models.data import graphs
from limelight_models.training import session
from limelight_models.training.session import Order
from limelight_models.training.stop import Stop
from tests.kit.serving import serving

NODES = (0, 1500, 2707)


def sent(graph: Graph) -> dict[str, limelight.Graph]:
    return {"graph": limelight.Graph(graph.nodes, graph.edges, node_names=graph.names)}


@pytest.mark.data
def test_a_node_is_answered_from_the_whole_graph_as_from_its_neighbourhood(data: Path, tmp_path: Path) -> None:
    """Two layers see two steps far: the whole of Cora (15.5 MB) and a neighbourhood say the same of a node."""
    source = data / "citation_graphs" / "cora.npz"
    order = Order(model="gat", out=tmp_path / "run", data=str(source), changes={"epochs": 3})
    session.train(order, stop=Stop(), told=lambda progress, batches: None, said=lambda line: None)
    export_run(tmp_path / "run", tmp_path / "repository")
    cora = graphs.read(source).graph
    parts = [graphs.neighbourhood(cora, node, 2) for node in NODES]
    with (
        serving(tmp_path / "repository", provider="cpu") as running,
        limelight.Client(running.server.address) as client,
    ):
        (whole,) = client.attend("gat", [sent(cora)])
        together = client.attend("gat", [sent(each) for each in parts])
    for node, part, answer in zip(NODES, parts, together, strict=True):
        logits = whole.prediction.outputs["logits"]
        assert logits.shape == (2708, 7)
        np.testing.assert_allclose(answer.prediction.outputs["logits"][0], logits[node], rtol=1e-4, atol=1e-5)
        for name, heads in (("layer.0", 8), ("layer.1", 1)):
            near, far = by_name(answer[name], 0), by_name(whole[name], node)
            assert near.keys() == far.keys() and len(near) == heads * (np.sum(part.edges[1] == 0) + 1)
            assert near == pytest.approx(far, abs=1e-5, rel=1e-3)
            assert f"paper {node}" in {key for key, _ in near}


def by_name(one: limelight.AttentionMap, query: int) -> dict[tuple[str, int], float]:
    """The weights of one node's edges, by the names of its neighbours and the head."""
    assert one.edges is not None
    own = np.flatnonzero(one.edges.query_index == query)
    names = [one.key.labels[key] for key in one.edges.key_index[own].tolist()]
    return {
        (name, head): float(one.weights[head, edge])
        for name, edge in zip(names, own.tolist(), strict=True)
        for head in range(len(one.weights))
    }
