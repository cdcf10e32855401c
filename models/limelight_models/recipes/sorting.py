"""Shared by the networks that sort the nodes of a graph into classes: sizes, input, maps, choices from the data."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from limelight_bundle.values import Graph
from limelight_models.cards.language import Attends, GraphInput
from limelight_models.data import citations, folder
from limelight_models.data.dataset import DataError, Dataset, classes
from limelight_models.recipes.prepared import described
from limelight_models.recipes.recipe import Blueprint
from limelight_models.recipes.settings import Preset
from limelight_models.recipes.sizes import Sizes
from limelight_models.tasks.tag import Tag


class NodesConfig(Sizes):
    """Sizes of a network of nodes, from the data and from the limits of the service."""

    features: int
    classes: int
    max_nodes: int = 20_000
    max_edges: int = 200_000


C = TypeVar("C", bound=NodesConfig)


def graph_input(config: NodesConfig, *, as_sent: bool = False) -> GraphInput:
    """The graph input. as_sent: no edge is added to those that are sent."""
    added = "none is added" if as_sent else "opposites of edges and edges from each node to itself are added"
    return GraphInput(
        summary=f"Nodes with features, and edges; {added}.",
        features=config.features,
        max_nodes=config.max_nodes,
        max_edges=config.max_edges,
        self_loops=not as_sent,
        both_ways=not as_sent,
    )


def attends(graph: GraphInput, summary: str) -> Attends:
    """A map of nodes that attend to their neighbours."""
    return Attends(graph.nodes, graph.nodes, summary, kind="graph", edges=graph.edges)


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
