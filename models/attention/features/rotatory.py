"""Rotatory attention (G6): a target between its left and its right context."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.attention.errors import CombinationError
from models.attention.flat import Contexts, attend, contexts_for, over_keys
from models.attention.queries.specialised import average


class RotatoryWeights(NamedTuple):
    """One row a rotation [batch, head, hop, position]: of the contexts, and of the target as each context sees it."""

    left: Tensor
    right: Tensor
    left_target: Tensor
    right_target: Tensor


class Rotation(nn.Module):
    """One turn of rotatory attention: from the target to its contexts and back (survey BF eq. 18–19).

    r^l = attention of r^t over F^l;  r^lt = attention of r^l over F^t, and the same on the right

    Shapes: queries [batch, 1, d_t] for left and right, features [batch, position, d], masks [batch, 1, 1, position]
        -> RotatoryWeights of context vectors [batch, 1, d], RotatoryWeights of weights [batch, head, 1, position].
    """

    def __init__(
        self, *, left: nn.Module, right: nn.Module, left_target: nn.Module, right_target: nn.Module
    ) -> None:
        super().__init__()
        self.left, self.right, self.left_target, self.right_target = left, right, left_target, right_target
