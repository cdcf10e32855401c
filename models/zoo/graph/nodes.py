"""The frame of networks that sort the nodes of a graph into classes: sizes, input, and the edges of their maps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from bundle.values import Graph
from models.cards.inputs import GraphInput
from models.cards.maps import Attends
from models.data.dataset import DataError, Dataset, classes
from models.training.recipe import Blueprint
from models.training.settings import Preset


@dataclass(frozen=True, kw_only=True)
class NodesConfig:
    """What the data and the service decide of any such network."""

    features: int
    classes: int
    max_nodes: int = 20_000
    max_edges: int = 200_000


C = TypeVar("C", bound=NodesConfig)


def graph_input(config: NodesConfig) -> GraphInput:
    """What a caller sends."""
    return GraphInput(
        summary="Nodes with features, and edges; opposites of edges and edges from each node to itself are added.",
        features=config.features,
        max_nodes=config.max_nodes,
        max_edges=config.max_edges,
    )


def attends(graph: GraphInput, summary: str) -> Attends:
    """A map of nodes that attend to their neighbours."""
    return Attends(graph.nodes, graph.nodes, summary, kind="graph", edges=graph.edges)


def ends(sources: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """The query and the key of each edge, as `Answer.edges` has them."""
    return dict(zip(GraphInput.edges, (targets, sources), strict=True))


def prepare(config: type[C]) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """Make a config of the training part's features and classes. Raises: DataError where an example has no graph."""

    def prepared(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        graph = dataset.train[0].instance["graph"]
        if not isinstance(graph, Graph):
            raise DataError("an example has no graph")
        labels = classes(dataset)
        return Blueprint(config(features=graph.nodes.shape[1], classes=len(labels), **preset.sizes), labels, {})

    return prepared
