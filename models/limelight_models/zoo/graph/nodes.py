"""Neighbourhoods in a graph: what is made of a node's neighbours, and the edges of a map."""

import torch
from torch import Tensor, nn

from limelight_models.attention import edges
from limelight_models.cards.inputs import GraphInput


def ends(sources: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """The query and the key of each edge, as `Answer.edges` has them."""
    return dict(zip(GraphInput.edges, (targets, sources), strict=True))


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

    Shapes: nodes and around [node, feature], sources and targets int64 [edge] -> scores [edge, head].
    """

    def __init__(self, score: nn.Module) -> None:
        super().__init__()
        self.score = score

    def forward(self, nodes: Tensor, around: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        return torch.zeros_like(self.score(nodes, around, sources, targets))
