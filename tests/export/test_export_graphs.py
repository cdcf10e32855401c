"""Graphs of nodes: exported with axes that vary freely, and proven with several in a batch."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import ModelProto
from torch import Tensor

from limelight_export.errors import ExportError
from limelight_export.execution.pytorch_runner import PyTorchReference, copy_for_export
from limelight_export.execution.random_inputs import RandomInputs, collate_rows
from limelight_export.exported_graph import ExportedGraph
from limelight_export.pipeline import export_model
from limelight_export.verification.verify import verify
from limelight_models.cards.card import Card
from limelight_models.network import Answer, Network
from tests.kit import exports, small

Forward = Callable[..., Answer]


@dataclass(frozen=True)
class Exported:
    """A small network with larger weights than usual, so that differences show, and its graphs."""

    model: Network
    card: Card
    graphs: list[ExportedGraph]


@pytest.fixture(scope="module")
def exported() -> Exported:
    torch.manual_seed(2)
    trained = small.trained("gat")
    model = copy_for_export(trained.model)
    for parameter in model.parameters():
        parameter.mul_(3)
    return Exported(model, trained.card, exports.build_graphs(model, trained.card))


def swap_ends(model: ModelProto) -> None:
    """Sources ask targets; what is told of the edges stays as it was."""
    other = {"sources": "targets", "targets": "sources"}
    for node in model.graph.node:
        if not set(node.output) & {"edge_targets", "edge_sources"}:
            node.input[:] = [other.get(name, name) for name in node.input]


def tell_ends_backwards(model: ModelProto) -> None:
    """Only what is told of the edges is wrong."""
    other = {"edge_targets": "edge_sources", "edge_sources": "edge_targets"}
    for node in model.graph.node:
        node.output[:] = [other.get(name, name) for name in node.output]


@pytest.mark.parametrize(
    ("sabotage", "message"),
    [
        (swap_ends, "the exported graph's answer differs from PyTorch's"),
        (tell_ends_backwards, "the exported graph's map layer.0 has other edges than PyTorch's"),
    ],
)
def test_a_graph_that_mistakes_its_edges_is_told_from_the_true_one(
    exported: Exported, sabotage: Callable[[ModelProto], None], message: str
) -> None:
    verify(exported.graphs, PyTorchReference(exported.model, exported.card), exported.card)
    graph = exported.graphs[0]
    broken = ModelProto.FromString(graph.model.SerializeToString())
    sabotage(broken)
    with pytest.raises(ExportError, match=message):
        verify([replace(graph, model=broken)], PyTorchReference(exported.model, exported.card), exported.card)


def test_weights_over_the_wrong_nodes_do_not_sum_to_one(exported: Exported) -> None:
    def backwards(*, nodes: Tensor, sources: Tensor, targets: Tensor) -> Answer:
        answer = exported.model(nodes=nodes, sources=targets, targets=sources)
        return replace(answer, edges={"edge_targets": targets, "edge_sources": sources})

    broken = copy_for_export(exported.model)
    broken.forward = backwards  # type: ignore[method-assign]
    with pytest.raises(ExportError, match=r"a row of the map layer\.0 sums to"):
        verify(exported.graphs, PyTorchReference(broken, exported.card), exported.card)


def test_a_model_in_which_one_graph_reaches_another_is_refused(tmp_path: Path) -> None:
    def mixing(forward: Forward) -> Forward:
        def mixed(*, nodes: Tensor, sources: Tensor, targets: Tensor) -> Answer:
            return forward(nodes=nodes - nodes.mean(0), sources=sources, targets=targets)

        return mixed

    trained = small.trained("gat")
    trained.model.forward = mixing(trained.model.forward)  # type: ignore[method-assign]
    with pytest.raises(ExportError, match="answer in a batch differs from its answer alone"):
        export_model(trained, tmp_path)


def test_a_model_that_does_not_tell_its_edges_is_refused(tmp_path: Path) -> None:
    trained = small.trained("gat")
    forward = trained.model.forward
    trained.model.forward = lambda **tensors: replace(forward(**tensors), edges={})  # type: ignore[method-assign]
    with pytest.raises(
        ExportError, match="the card states the index of edges 'edge_targets', which the model does not return"
    ):
        export_model(trained, tmp_path)


def test_a_name_for_two_tensors_is_refused(tmp_path: Path) -> None:
    trained = small.trained("gat")
    forward = trained.model.forward
    trained.model.forward = lambda **tensors: replace(forward(**tensors), edges=tensors)  # type: ignore[method-assign]
    ends = dict.fromkeys(trained.card.edges, ("targets", "sources"))
    with pytest.raises(ExportError, match=r"\['sources', 'targets'\]: each is the name of two tensors"):
        export_model(replace(trained, card=replace(trained.card, edges=ends)), tmp_path)


def test_made_up_graphs_have_no_edge_twice_and_lead_nowhere_else() -> None:
    card = small.trained("gat").card
    cases = RandomInputs(card, seed=3)
    for nodes, edges in ((1, 5), (2, 4), (3, 30), (9, 12)):
        rows = cases.rows({"batch": 3, "node": nodes, "edge": edges})
        for row in rows:
            pairs = np.stack([row.tensors["sources"], row.tensors["targets"]])
            assert pairs.shape[1] == row.sizes["edge"] == min(edges, nodes**2)
            assert len(set(map(tuple, pairs.T.tolist()))) == pairs.shape[1]
            assert pairs.min() >= 0 and pairs.max() < nodes
        joined = collate_rows(card, rows)
        assert len(joined["nodes"]) == 3 * nodes and joined["targets"].max() < 3 * nodes
