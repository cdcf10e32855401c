"""Gated attention network, K19 (Zhang et al. 2018): a gate says how much of each head a node takes.

The paper's figure of the aggregator: heads attend to the neighbours by dot products; beside them a small network reads
the node and its neighbourhood, and opens or closes each head. Neighbours are the nodes from which an edge that was sent
leads to a node: not itself, and not the other end of its own edges, unless they are sent as well. Graphs of a batch are
one graph of several parts.
"""

from torch import Tensor, nn

from limelight_models.cards.language import Classes, maps_of
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.sorting import NodesConfig, attends, graph_input, sorting
from limelight_models.zoo.graph.gated import GatedAggregator, GatedSizes, HeadGate, OpenGate
from limelight_models.zoo.graph.nodes import ends


class GaanConfig(NodesConfig, GatedSizes):
    """Sizes, as the paper names them; the defaults are those of the authors' program for protein interactions.

    d_embedded: of a node before the first layer. d_out: of a node behind each layer.
    """

    layers: int = 2
    d_embedded: int = 64
    d_out: int = 128
    dropout: float = 0.1


class GatedAttentionNetwork(Network):
    """Graph -> a class for each node, with the weight of each edge in every layer and head, and how much of it counts.

    gate: of every layer.

    Shapes: nodes float32 [node, feature]; sources, targets int64 [edge] -> logits [node, class], maps `layer.<number>`
        and `gate.<number>` [edge, head].
    """

    def __init__(self, config: GaanConfig, *, gate: type[nn.Module] = HeadGate) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Linear(config.features, config.d_embedded)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            GatedAggregator(config, d_in=size, d_around=size, d_out=config.d_out, gate=gate)
            for size in (config.d_embedded, *[config.d_out] * (config.layers - 1))
        )
        self.classify = nn.Linear(config.d_out, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        sources, targets = tensors["sources"], tensors["targets"]
        nodes, maps = self.embed(tensors["nodes"]), {}
        for number, layer in enumerate(self.layers):
            nodes = self.dropout(nodes)
            nodes, maps[f"layer.{number}"], maps[f"gate.{number}"] = layer(nodes, nodes, sources, targets)
        return Answer({"logits": self.classify(nodes)}, maps, edges=ends(sources, targets))


def card(network: GatedAttentionNetwork, blueprint: Blueprint[GaanConfig]) -> Card:
    """Describe the network."""
    graph = graph_input(network.config, as_sent=True)
    about = "How much each node takes from each of its neighbours in layer {}"
    shown = {
        "layer.{}": attends(graph, f"{about}."),
        "gate.{}": attends(graph, f"{about}, times the gate of the head: the weights of a node sum to its gate."),
    }
    return blueprint.card(
        network,
        title="Gated attention network",
        summary="Sorts the nodes of a graph into classes by what they and their neighbours are, head by gated head.",
        inputs=[graph],
        results=[Classes(labels=blueprint.labels, over=graph.nodes)],
        maps=maps_of(network.layers, shown),
        taxonomy="multiplicative, self-attentive, multi-head",
        citation="Zhang, Shi, Xie, Ma, King, Yeung (2018): GaAN: Gated Attention Networks for Learning on Large "
        "and Spatiotemporal Graphs. UAI",
    )


_SMALL = {"heads": 4, "d_embedded": 32, "d_out": 32, "d_score": 8, "d_value": 8, "d_pooled": 16}
PRESETS = {
    "tiny": tiny(heads=2, d_embedded=6, d_out=6, d_score=3, d_value=3, d_pooled=4),
    "demo": preset(40, 6, 1e-2, weight_decay=0.0, patience=10, **_SMALL, dropout=0.2, max_nodes=2000, max_edges=20_000),
    # For a citation graph of which few nodes have classes.
    "full": preset(100, 1, 5e-3, weight_decay=0.05, patience=30, **_SMALL, dropout=0.5),
    "paper": preset(200, 1, 1e-2, weight_decay=0.0, patience=30),
}

GAAN = sorting(GaanConfig, GatedAttentionNetwork, card, PRESETS)
# What the gates are compared with: every head counts in full.
GAAN_UNGATED = GAAN.with_parts(gate=OpenGate)
