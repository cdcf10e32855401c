"""Rotatory attention (G6): a target between its left and its right context."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.errors import CombinationError
from limelight_models.attention.flat import Contexts, attend, average, contexts_for, over_keys
from limelight_models.attention.weights import Weights, weights_of


class RotatoryWeights(NamedTuple):
    """One row a rotation [batch, head, hop, position]: of the contexts, and of the target as each context sees it."""

    left: Tensor
    right: Tensor
    left_target: Tensor
    right_target: Tensor


class Surroundings(NamedTuple):
    """Features [batch, position, d] or masks [batch, 1, 1, position] of a target and what stands around it."""

    left: Tensor
    target: Tensor
    right: Tensor


class Rotation(nn.Module):
    """One turn of rotatory attention: from the target to its surroundings and back (survey BF eq. 18–19).

    r^l = attention of the left query over F^l;  r^lt = attention of r^l over F^t;  the same on the right

    Shapes: queries [batch, 1, d_t], features [batch, position, d], masks [batch, 1, 1, position] or None
        -> context vectors [batch, 1, d] and weights [batch, head, 1, position], both RotatoryWeights.
    """

    def __init__(self, *, left: nn.Module, right: nn.Module, left_target: nn.Module, right_target: nn.Module) -> None:
        super().__init__()
        self.left, self.right, self.left_target, self.right_target = left, right, left_target, right_target

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Left, right, left target, right target."""
        return weights_of(self.left, self.right, self.left_target, self.right_target)

    def forward(
        self,
        left_query: Tensor,
        right_query: Tensor,
        features: Surroundings,
        masks: Sequence[Tensor | None],
        contexts: Contexts = None,
    ) -> tuple[RotatoryWeights, RotatoryWeights]:
        of = contexts_for(contexts, RotatoryWeights._fields)
        left, left_map = attend(self.left, left_query, features.left, None, masks[0], of[0])
        right, right_map = attend(self.right, right_query, features.right, None, masks[2], of[1])
        left_target, left_target_map = attend(self.left_target, left, features.target, None, masks[1], of[2])
        right_target, right_target_map = attend(self.right_target, right, features.target, None, masks[1], of[3])
        return (
            RotatoryWeights(left, right, left_target, right_target),
            RotatoryWeights(left_map, right_map, left_target_map, right_target_map),
        )


class Rotatory(nn.Module):
    """Rotatory attention (Zheng & Xia 2018, eq. 5–13; repeated: Wallaart & Frasincar 2019; survey BF eq. 17–20).

    r^t = average of F^t; a rotation; r = [r^l; r^r; r^lt; r^rt]

    Each further rotation asks the left with r^lt and the right with r^rt of the one before. `rotations=[turn] * 3`
    shares weights between rotations, `[a, b, c]` gives each its own.

    Shapes: left [batch, left, d], target [batch, target, d], right [batch, right, d], masks [batch, position]
        -> context vector [batch, sum of the four sizes], RotatoryWeights.
    Raises: CombinationError at construction where there is no rotation.
    """

    def __init__(self, *, rotations: Sequence[Rotation]) -> None:
        super().__init__()
        if not rotations:
            raise CombinationError("rotatory attention needs at least one rotation")
        self.rotations = nn.ModuleList(rotations)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Left, right, left target, right target; a row a rotation."""
        return weights_of(self.rotations[0])

    def forward(
        self,
        left: Tensor,
        target: Tensor,
        right: Tensor,
        left_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        right_mask: Tensor | None = None,
        contexts: Sequence[Contexts] | None = None,
    ) -> tuple[Tensor, RotatoryWeights]:
        masks = [over_keys(mask) for mask in (left_mask, target_mask, right_mask)]
        left_query = right_query = average(target, target_mask)
        maps = []
        for rotation, turn in zip(self.rotations, contexts or [None] * len(self.rotations), strict=True):
            found, weights = rotation(left_query, right_query, Surroundings(left, target, right), masks, turn)
            left_query, right_query = found.left_target, found.right_target
            maps.append(weights)
        return torch.cat(found, -1).flatten(1), RotatoryWeights(
            *(torch.cat(rows, 2) for rows in zip(*maps, strict=True))
        )
