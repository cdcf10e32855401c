"""Scores that a graph attention network may have in place of its own: GATv2's (Brody et al. 2022), and equal ones."""

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from limelight_models.attention.controls import uniform


class SameScore(nn.Module):
    """The same score for every neighbour: each node is the plain average of its own. What attention is compared with.

    Shapes: transformed [node, head, feature], sources and targets int64 [edge] -> scores [edge, head].
    """

    def forward(self, transformed: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        return transformed.new_zeros(sources.shape[0], transformed.shape[1])


class DynamicScore(nn.Module):
    """Score of node j for node i, head by head (Brody et al. 2022, eq. 7).

    e_ij = aᵀ LeakyReLU(W h_i + W h_j), of which the neighbour ranked first depends on i: with the nonlinearity outside
    it is the same for every node. Both ends share one W, so that the network is no larger than the other.

    Shapes: as `NeighbourScore`. Memory: edge × head × feature floats.
    """

    deciding = ("",)

    def __init__(self, *, heads: int, d_head: int, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.attention = nn.Parameter(torch.empty(heads, d_head))
        nn.init.xavier_uniform_(self.attention)

    def forward(self, transformed: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        together = leaky_relu(transformed[targets] + transformed[sources], self.slope)
        return (together * self.attention).sum(-1)


@uniform.register(DynamicScore)
def _(score: nn.Module) -> SameScore:
    return SameScore()
