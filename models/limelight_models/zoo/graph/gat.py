"""Graph attention network, K6 (Veličković et al. 2018): a node is what it makes of its neighbours.

Fig. 1 of the paper: on the left how a node scores a neighbour, on the right several heads that are concatenated, or in
the last layer averaged. Graphs of a batch are one graph of several parts: no edge leads from one to another.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, leaky_relu

from limelight_models.attention import edges
from limelight_models.attention.controls import uniform
from limelight_models.attention.weights import Weights
from limelight_models.cards.language import Classes, maps_of
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.sorting import NodesConfig, attends, graph_input, sorting
from limelight_models.zoo.graph.nodes import ends
from limelight_models.zoo.graph.scores import DynamicScore, SameScore


class GatConfig(NodesConfig):
    """Sizes; the defaults are the paper's for Cora (§3.3).

    hidden_layers: each of `heads` heads of `d_head` features. output_heads: of the last layer.
    dropout: share of the features, and of the weights, that training leaves out. slope: of LeakyReLU below zero.
    shares: whether a node's features are divided by the sum of their sizes first, as the authors do with words.
    l2: weight of half the squared sizes of all weights in what training minimises.
    """

    hidden_layers: int = 1
    heads: int = 8
    d_head: int = 8
    output_heads: int = 1
    dropout: float = 0.6
    slope: float = 0.2
    shares: bool = True
    l2: float = 5e-4

    @property
    def layer_heads(self) -> tuple[int, ...]:
        """Heads of each layer, the last one's behind."""
        return (self.heads,) * self.hidden_layers + (self.output_heads,)


class NeighbourScore(nn.Module):
    """Score of node j for node i, head by head (paper eq. 1 and 3).

    e_ij = LeakyReLU(aᵀ [W h_i ‖ W h_j])

    The product with `a` is taken in its two halves, once a node and not once an edge.

    Shapes: transformed [node, head, feature], sources (j) and targets (i) int64 [edge] -> scores [edge, head].
    """

    deciding = ("",)  # all of its parameters decide weights

    def __init__(self, *, heads: int, d_head: int, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.target = nn.Parameter(torch.empty(heads, d_head))
        self.source = nn.Parameter(torch.empty(heads, d_head))
        nn.init.xavier_uniform_(self.target)
        nn.init.xavier_uniform_(self.source)

    def forward(self, transformed: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        of_target, of_source = (transformed * self.target).sum(-1), (transformed * self.source).sum(-1)
        return leaky_relu(of_target[targets] + of_source[sources], self.slope)


@uniform.register(NeighbourScore)
def _(score: nn.Module) -> SameScore:
    return SameScore()


class GraphAttention(nn.Module):
    """One layer (paper eq. 2–6): each head attends to the neighbours, by a linear map of its own.

    a_ij = softmax_j(e_ij);  h'_i = ‖_k Σ_j a_ij^k W^k h_j (concatenated), or the mean over heads k (averaged)

    Shapes: nodes [node, d_in], sources and targets int64 [edge] -> [node, head × feature] concatenated, [node, feature]
        averaged; weights [edge, head], before dropout.
    """

    def __init__(
        self, *, d_in: int, d_head: int, heads: int, score: nn.Module, dropout: float = 0.0, average: bool = False
    ) -> None:
        super().__init__()
        self.heads, self.average = heads, average
        self.transform = nn.Linear(d_in, heads * d_head, bias=False)
        nn.init.xavier_uniform_(self.transform.weight)
        self.score = score
        self.dropout = nn.Dropout(dropout)
        self.bias = nn.Parameter(torch.zeros(d_head if average else heads * d_head))

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights."""
        return (Weights(heads=self.heads),)

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        transformed = self.transform(self.dropout(nodes)).unflatten(-1, (self.heads, -1))  # [node, head, feature]
        scores = self.score(transformed, sources, targets)
        weights, used = edges.changed(edges.softmax(scores, targets, nodes.shape[0]), targets, nodes.shape[0])
        attended = edges.weighted_sum(self.dropout(used), transformed, targets, sources, nodes.shape[0])
        return (attended.mean(1) if self.average else attended.flatten(1)) + self.bias, weights


class GraphAttentionNetwork(Network):
    """Graph -> a class for each node, with the weight of each edge, in every layer and head.

    score: makes the score of each layer, from `heads`, `d_head` and `slope`.

    Shapes: nodes float32 [node, feature]; sources, targets int64 [edge], a node's own edge to itself among them
        -> logits [node, class], maps `layer.<number>` [edge, head].
    """

    def __init__(self, config: GatConfig, *, score: Callable[..., nn.Module] = NeighbourScore) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList()
        d_in = config.features
        for layer, heads in enumerate(config.layer_heads):
            last = layer == config.hidden_layers
            d_head = config.classes if last else config.d_head
            self.layers.append(
                GraphAttention(
                    d_in=d_in,
                    d_head=d_head,
                    heads=heads,
                    score=score(heads=heads, d_head=d_head, slope=config.slope),
                    dropout=config.dropout,
                    average=last,
                )
            )
            d_in = heads * d_head

    def forward(self, **tensors: Tensor) -> Answer:
        nodes, sources, targets = tensors["nodes"], tensors["sources"], tensors["targets"]
        if self.config.shares:
            total = nodes.abs().sum(-1, keepdim=True)
            nodes = nodes / torch.where(total > 0, total, torch.ones_like(total))
        maps = {}
        for number, layer in enumerate(self.layers):
            nodes, maps[f"layer.{number}"] = layer(elu(nodes) if number else nodes, sources, targets)
        return Answer({"logits": nodes}, maps, edges=ends(sources, targets))

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """The paper's (§3.3): cross-entropy and, in training, L2 of the weights; biases are left alone."""
        if not self.training:
            return losses.sum()
        squares = torch.stack([each.square().sum() for each in self.parameters() if each.ndim > 1])
        return losses.sum() + len(losses) * self.config.l2 / 2 * squares.sum()


def card(network: GraphAttentionNetwork, blueprint: Blueprint[GatConfig]) -> Card:
    """Describe the network."""
    graph = graph_input(network.config)
    shown = attends(graph, "How much each node takes from each of its neighbours, and from itself, in layer {}.")
    return blueprint.card(
        network,
        title="Graph attention network",
        summary="Sorts the nodes of a graph into classes by what they and their neighbours are.",
        inputs=[graph],
        results=[Classes(labels=blueprint.labels, over=graph.nodes)],
        maps=maps_of(network.layers, {"layer.{}": shown}),
        taxonomy="additive, self-attentive, multi-head",
        citation="Veličković, Cucurull, Casanova, Romero, Liò, Bengio (2018): Graph Attention Networks. ICLR",
    )


# The paper's for Cora, but for a learning rate that rises and falls in place of a constant one.
_PAPER = preset(600, 1, 5e-3, weight_decay=0.0, patience=100)
PRESETS = {
    "tiny": tiny(heads=4, d_head=4, output_heads=2, dropout=0.1),
    "demo": preset(40, 6, 1e-2, weight_decay=0.0, patience=10, heads=4, dropout=0.2, max_nodes=2000, max_edges=20_000),
    "full": _PAPER,
    "paper": _PAPER,
}

GAT = sorting(GatConfig, GraphAttentionNetwork, card, PRESETS)
# What attention is compared with: plain averages over neighbours.
GAT_MEAN = GAT.with_parts(score=lambda **sizes: SameScore())
# Scores whose order of neighbours depends on the node (Brody et al. 2022).
GAT_V2 = GAT.with_parts(score=DynamicScore)
