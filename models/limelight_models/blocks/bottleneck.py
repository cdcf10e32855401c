"""The bottleneck of a ResNet, with attention in the place of its 3 × 3 convolution."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.weights import Weights, weights_of


class Bottleneck(nn.Module):
    """relu(x + norm(W₂ relu(norm(attend(relu(norm(W₁ x))))))), W by 1 × 1 convolutions; x by one where sizes differ.

    Shapes: [batch, d_in, pixel] -> [batch, d, pixel], weights [batch, head, pixel, pixel] of each attention.
    """

    def __init__(self, *, d_in: int, d_hidden: int, d: int, attentions: Mapping[str, MultiHead]) -> None:
        super().__init__()
        self.inner = nn.Sequential(*mixed(d_in, d_hidden), nn.ReLU())
        self.attentions = nn.ModuleDict(attentions)
        self.outer = nn.Sequential(nn.BatchNorm1d(d_hidden), nn.ReLU(), *mixed(d_hidden, d))
        self.across = nn.Sequential(*(mixed(d_in, d) if d_in != d else ()))

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of its attentions."""
        return tuple(made for each in self.attentions.values() for made in weights_of(each))

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        found, maps = self.inner(x).transpose(1, 2), {}
        for name, attention in self.attentions.items():
            found, maps[name] = attention(found, found)
        return torch.relu(self.across(x) + self.outer(found.transpose(1, 2))), maps


def mixed(d_in: int, d: int) -> tuple[nn.Module, nn.Module]:
    """Features mixed within each pixel, and normalised."""
    return nn.Conv1d(d_in, d, 1, bias=False), nn.BatchNorm1d(d)
