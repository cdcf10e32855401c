"""Gated attention network, K19 (Zhang et al. 2018): a gate says how much of each head a node takes.

The paper's figure of the aggregator: heads attend to the neighbours by dot products; beside them a small network reads
the node and its neighbourhood, and opens or closes each head. Neighbours are the nodes from which an edge that was sent
leads to a node: not itself, and not the other end of its own edges, unless they are sent as well. Graphs of a batch are
one graph of several parts.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from limelight_models.attention import edges
from limelight_models.attention.controls import uniform
from limelight_models.attention.weights import Weights
from limelight_models.cards.language import Classes, maps_of
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.sorting import NodesConfig, attends, graph_input, sorting
from limelight_models.zoo.graph.nodes import SameScore, ends, largest, mean

SLOPE = 0.1  # of LeakyReLU below zero


class GaanConfig(NodesConfig):
    """Sizes, as the paper names them; the defaults are those of the authors' program for protein interactions.

    d_embedded: of a node before the first layer. d_out: of a node behind each layer. d_score, d_value: of a query and
    a value of one head. d_pooled: of a neighbour, where the gate takes the largest.
    """

    layers: int = 2
    heads: int = 8
    d_embedded: int = 64
    d_out: int = 128
    d_score: int = 24
    d_value: int = 32
    d_pooled: int = 64
    dropout: float = 0.1


class DotScore(nn.Module):
    """Score of node j for node i, head by head: φ_w(x_i, z_j) = ⟨FC_xa(x_i), FC_za(z_j)⟩.

    Shapes: nodes [node, d_in], sources (j) and targets (i) int64 [edge] -> scores [edge, head].
    """

    deciding = ("",)  # all of its parameters decide weights

    def __init__(self, *, d_in: int, d_score: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_map, self.key_map = nn.Linear(d_in, heads * d_score), nn.Linear(d_in, heads * d_score)

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        queries, keys = (each(nodes).unflatten(-1, (self.heads, -1)) for each in (self.query_map, self.key_map))
        return (queries[targets] * keys[sources]).sum(-1)


uniform.register(DotScore, SameScore)


class HeadGate(nn.Module):
    """Gate of each head for a node, from its features and those around it (the paper's ψ_g).

    g_i = sigmoid(FC_g(x_i ⊕ max_{j ∈ N_i} FC_m(z_j) ⊕ Σ_{j ∈ N_i} z_j / |N_i|))

    Shapes: nodes [node, d_in], sources and targets int64 [edge] -> gates [node, head] in (0, 1). A node without an edge
        is judged as if its neighbourhood were zeros.
    """

    def __init__(self, *, d_in: int, d_pooled: int, heads: int) -> None:
        super().__init__()
        self.pooled, self.decide = nn.Linear(d_in, d_pooled), nn.Linear(2 * d_in + d_pooled, heads)

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        pooled = largest(self.pooled(nodes), sources, targets)
        return self.decide(torch.cat([nodes, pooled, mean(nodes, sources, targets)], -1)).sigmoid()


class OpenGate(nn.Module):
    """Takes all of every head: plain multi-head attention, with which the paper compares its gates.

    Shapes: as `HeadGate`.
    """

    def __init__(self, *, heads: int, **_: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        return nodes.new_ones(nodes.shape[0], self.heads)


class GatedAggregator(nn.Module):
    """One layer: gated heads over the neighbours, beside the node itself (the paper's gated attention aggregator).

    y_i = FC_o(x_i ⊕ ‖_k g_i^k Σ_j w_ij^k FC_v^k(z_j)), w_ij^k = softmax_j φ_w^k(x_i, z_j), FC_v and FC_o with LeakyReLU

    gate: makes the gate.

    Shapes: nodes [node, d_in], sources and targets int64 [edge] -> [node, d_out]; weights w [edge, head]; gated weights
        g w [edge, head], whose sum over the edges of a node is its gate.
    """

    def __init__(self, config: GaanConfig, *, d_in: int, gate: type[nn.Module]) -> None:
        super().__init__()
        self.heads = config.heads
        self.score = DotScore(d_in=d_in, d_score=config.d_score, heads=config.heads)
        self.gate = gate(d_in=d_in, d_pooled=config.d_pooled, heads=config.heads)
        self.value_map = nn.Linear(d_in, config.heads * config.d_value)
        self.merge = nn.Linear(d_in + config.heads * config.d_value, config.d_out)
        self.dropout = nn.Dropout(config.dropout)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """The weights of each head; then the gated ones."""
        return (Weights(heads=self.heads), Weights(heads=self.heads, normalised=False))

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nodes = self.dropout(nodes)
        values = leaky_relu(self.value_map(nodes), SLOPE).unflatten(-1, (self.heads, -1))  # [node, head, d_value]
        weights = edges.softmax(self.score(nodes, sources, targets), targets, nodes.shape[0])
        weights, used = edges.changed(weights, targets, nodes.shape[0])
        gated = self.gate(nodes, sources, targets)[targets] * used
        attended = edges.weighted_sum(gated, values, targets, sources, nodes.shape[0]).flatten(1)
        return leaky_relu(self.merge(torch.cat([nodes, attended], -1)), SLOPE), weights, gated


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
        sizes = (config.d_embedded, *(config.d_out for _ in range(config.layers - 1)))
        self.layers = nn.ModuleList(GatedAggregator(config, d_in=size, gate=gate) for size in sizes)
        self.classify = nn.Linear(config.d_out, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        sources, targets = tensors["sources"], tensors["targets"]
        nodes, maps = self.embed(tensors["nodes"]), {}
        for number, layer in enumerate(self.layers):
            nodes, maps[f"layer.{number}"], maps[f"gate.{number}"] = layer(nodes, sources, targets)
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
