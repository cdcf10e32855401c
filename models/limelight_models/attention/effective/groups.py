"""Heads of several kinds beside each other."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.core import Effective


class HeadGroups(Effective[tuple[Any, ...]]):
    """The first heads attend in one way, the next in another: as many heads to each.

    Shapes: as `Effective`, of so many heads that the parts divide them.
    """

    def __init__(self, parts: Sequence[Effective[Any]]) -> None:
        super().__init__(causal=all(each.causal for each in parts))
        self.parts = nn.ModuleList(parts)
        self.normalised = all(each.normalised for each in parts)
        self.signed = any(each.signed for each in parts)

    def split(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The heads of each part."""
        return tensor.chunk(len(self.parts), 1)

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Any, ...]:
        heads = zip(self.parts, self.split(query), self.split(key), strict=True)
        return tuple(part.prepare(*each, mask) for part, *each in heads)

    def sums(self, prepared: tuple[Any, ...], value: Tensor) -> Tensor:
        found = zip(self.parts, prepared, self.split(value), strict=True)
        return torch.cat([part.sums(one, each) for part, one, each in found], 1)

    def rows(self, prepared: tuple[Any, ...], index: Tensor) -> Tensor:
        return torch.cat([part.rows(one, index) for part, one in zip(self.parts, prepared, strict=True)], 1)

    def allowed(self, prepared: tuple[Any, ...], index: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        found = zip(self.parts, prepared, self.split(key), strict=True)
        every = key[:, : key.shape[1] // len(self.parts), :1, :1] == key[:, : key.shape[1] // len(self.parts), :1, :1]
        return torch.cat([part.allowed(one, index, each, mask) & every for part, one, each in found], 1)
