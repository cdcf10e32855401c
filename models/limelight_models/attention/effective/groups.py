"""Attention made of several kinds: heads of each beside each other."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.core import Effective

Parts = tuple[Any, ...]  # what each part prepares


class Several(Effective[Parts]):
    """Attention of several parts, whose weights a subclass joins.

    Shapes: as `Effective`.
    """

    def __init__(self, parts: Sequence[Effective[Any]]) -> None:
        super().__init__(causal=all(each.causal for each in parts))
        self.parts = nn.ModuleList(parts)

    @property
    def each(self) -> list[Effective[Any]]:
        """The parts."""
        return cast("list[Effective[Any]]", [*self.parts])

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Parts:
        return tuple(part.prepare(query, key, mask) for part in self.each)

    def rows_of(self, prepared: Parts, index: Tensor) -> list[Tensor]:
        """Weights by each part."""
        return [part.rows(one, index) for part, one in zip(self.each, prepared, strict=True)]


class HeadGroups(Several):
    """The first heads attend in one way, the next in another: as many heads to each.

    Shapes: as `Effective`, of so many heads that the parts divide them.
    """

    def __init__(self, parts: Sequence[Effective[Any]]) -> None:
        super().__init__(parts)
        self.normalised = all(each.normalised for each in parts)
        self.signed = any(each.signed for each in parts)

    def split(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """The heads of each part."""
        return tensor.chunk(len(self.parts), 1)

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Parts:
        heads = zip(self.each, self.split(query), self.split(key), strict=True)
        return tuple(part.prepare(asked, kept, mask) for part, asked, kept in heads)

    def sums(self, prepared: Parts, value: Tensor) -> Tensor:
        found = zip(self.each, prepared, self.split(value), strict=True)
        return torch.cat([part.sums(one, each) for part, one, each in found], 1)

    def rows(self, prepared: Parts, index: Tensor) -> Tensor:
        return torch.cat(self.rows_of(prepared, index), 1)

    def allowed(self, prepared: Parts, index: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        found = zip(self.each, prepared, self.split(key), strict=True)
        every = torch.ones_like(key[:, : key.shape[1] // len(self.parts), :1, :1], dtype=torch.bool)
        return torch.cat([part.allowed(one, index, each, mask) & every for part, one, each in found], 1)
