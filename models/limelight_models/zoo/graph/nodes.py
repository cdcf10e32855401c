"""The frame of networks that sort the nodes of a graph into classes: sizes, input, neighbourhoods, edges of maps."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from limelight_bundle.values import Graph
from limelight_models.attention import edges
from limelight_models.cards.language import Attends, GraphInput
from limelight_models.data import citations, folder
from limelight_models.data.dataset import DataError, Dataset, classes
from limelight_models.recipes import Blueprint, Preset, Sizes, described
from limelight_models.tasks.tag import Tag


class NodesConfig(Sizes):
    """Sizes of a network of nodes, from the data and from the limits of the service."""

    features: int
    classes: int
    max_nodes: int = 20_000
    max_edges: int = 200_000


C = TypeVar("C", bound=NodesConfig)


def graph_input(config: NodesConfig) -> GraphInput:
    """The graph input."""
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


# The recipe of a network that sorts nodes into classes, and learns from the graphs of a batch as one.
sorting = partial(described, choices=prepare, task=Tag(joined=True), data=folder.GRAPHS, builtin=citations.dataset)


def mean(nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
    """Average each node's neighbours; zeros where there are none.

    Shapes: nodes [node, feature], sources and targets int64 [edge] -> [node, feature].
    """
    count = edges.sums(torch.ones_like(targets), targets, nodes.shape[0]).clamp(min=1).unsqueeze(-1)
    return edges.sums(nodes[sources], targets, nodes.shape[0]) / count


def largest(nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
    """Take the largest of each feature among a node's neighbours; zeros where there are none. Shapes: as `mean`."""
    lowest = torch.full_like(nodes, torch.finfo(nodes.dtype).min)
    places = targets.unsqueeze(-1).expand(-1, nodes.shape[1])
    found = lowest.scatter_reduce(0, places, nodes[sources], "amax")
    return torch.where(found > lowest, found, torch.zeros_like(found))


class SameScore(nn.Module):
    """The same score for every neighbour, with the parameters of another score: what attention is compared with.

    Shapes: nodes [node, feature], sources and targets int64 [edge] -> scores [edge, head].
    """

    def __init__(self, score: nn.Module) -> None:
        super().__init__()
        self.score = score

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        return torch.zeros_like(self.score(nodes, sources, targets))
