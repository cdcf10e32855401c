"""Gated attention over the neighbours of nodes (Zhang et al. 2018), which networks of graphs share.

Neighbours are the nodes from which an edge leads to a node. What they show, z, may be other than the node's own x.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from limelight_models.attention import edges
from limelight_models.attention.controls import uniform
from limelight_models.attention.weights import Weights
from limelight_models.recipes import Sizes
from limelight_models.zoo.graph.nodes import SameScore, largest, mean

SLOPE = 0.1  # of LeakyReLU below zero


class GatedSizes(Sizes):
    """Sizes of an aggregator. d_score, d_value: of a query and a value of one head. d_pooled: of a neighbour, where the
    gate takes the largest.
    """

    heads: int = 8
    d_score: int = 24
    d_value: int = 32
    d_pooled: int = 64


class DotScore(nn.Module):
    """Score of node j for node i, head by head: φ_w(x_i, z_j) = ⟨FC_xa(x_i), FC_za(z_j)⟩.

    Shapes: nodes x [node, d_in], around z [node, d_around], sources j, targets i int64 [edge] -> scores [edge, head].
    """

    deciding = ("",)  # all of its parameters decide weights

    def __init__(self, *, d_in: int, d_around: int, d_score: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_map, self.key_map = nn.Linear(d_in, heads * d_score), nn.Linear(d_around, heads * d_score)

    def forward(self, nodes: Tensor, around: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        queries = self.query_map(nodes).unflatten(-1, (self.heads, -1))
        keys = self.key_map(around).unflatten(-1, (self.heads, -1))
        # A product of matrices: of no edge at all, ONNX Runtime leaves sums over an axis undone (as of 1.31.1).
        return (queries[targets].unsqueeze(-2) @ keys[sources].unsqueeze(-1)).squeeze(-1).squeeze(-1)


uniform.register(DotScore, SameScore)


class HeadGate(nn.Module):
    """Gate of each head for a node, from its features and those around it (the paper's ψ_g).

    g_i = sigmoid(FC_g(x_i ⊕ max_{j ∈ N_i} FC_m(z_j) ⊕ Σ_{j ∈ N_i} z_j / |N_i|))

    Shapes: nodes [node, d_in], around [node, d_around], sources and targets int64 [edge] -> gates [node, head] in
        (0, 1). A node without an edge is judged as if its neighbourhood were zeros.
    """

    def __init__(self, *, d_in: int, d_around: int, d_pooled: int, heads: int) -> None:
        super().__init__()
        self.pooled, self.decide = nn.Linear(d_around, d_pooled), nn.Linear(d_in + d_pooled + d_around, heads)

    def forward(self, nodes: Tensor, around: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        pooled = largest(self.pooled(around), sources, targets)
        return self.decide(torch.cat([nodes, pooled, mean(around, sources, targets)], -1)).sigmoid()


class OpenGate(nn.Module):
    """Takes all of every head: plain multi-head attention, with which the paper compares its gates.

    Shapes: as `HeadGate`.
    """

    def __init__(self, *, heads: int, **_: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, nodes: Tensor, around: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        return nodes.new_ones(nodes.shape[0], self.heads)


class GatedAggregator(nn.Module):
    """One layer: gated heads over the neighbours, beside the node itself (the paper's gated attention aggregator).

    y_i = FC_o(x_i ⊕ ‖_k g_i^k Σ_j w_ij^k FC_v^k(z_j)), w_ij^k = softmax_j φ_w^k(x_i, z_j), FC_v and FC_o with LeakyReLU

    gate: makes the gate. linear: leaves FC_o without LeakyReLU.

    Shapes: nodes x [node, d_in], around z [node, d_around], sources and targets int64 [edge] -> [node, d_out]; weights
        w [edge, head]; gated weights g w [edge, head], whose sum over the edges of a node is its gate.
    """

    def __init__(
        self,
        sizes: GatedSizes,
        *,
        d_in: int,
        d_around: int,
        d_out: int,
        gate: type[nn.Module] = HeadGate,
        linear: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.linear = sizes.heads, linear
        self.score = DotScore(d_in=d_in, d_around=d_around, d_score=sizes.d_score, heads=sizes.heads)
        self.gate = gate(d_in=d_in, d_around=d_around, d_pooled=sizes.d_pooled, heads=sizes.heads)
        self.value_map = nn.Linear(d_around, sizes.heads * sizes.d_value)
        self.merge = nn.Linear(d_in + sizes.heads * sizes.d_value, d_out)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """The weights of each head; then the gated ones."""
        return (Weights(heads=self.heads), Weights(heads=self.heads, normalised=False))

    def forward(self, nodes: Tensor, around: Tensor, sources: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        values = leaky_relu(self.value_map(around), SLOPE).unflatten(-1, (self.heads, -1))  # [node, head, d_value]
        weights = edges.softmax(self.score(nodes, around, sources, targets), targets, nodes.shape[0])
        weights, used = edges.changed(weights, targets, nodes.shape[0])
        gated = self.gate(nodes, around, sources, targets)[targets] * used
        attended = edges.weighted_sum(gated, values, targets, sources, nodes.shape[0]).flatten(1)
        made = self.merge(torch.cat([nodes, attended], -1))
        return made if self.linear else leaky_relu(made, SLOPE), weights, gated
