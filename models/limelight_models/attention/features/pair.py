"""Feature models of two inputs, with one result each."""

from typing import NamedTuple

from torch import Tensor


class Pair(NamedTuple):
    """Context vectors [batch, d] or weights [batch, head, 1, position] of two inputs."""

    first: Tensor
    second: Tensor


class FineWeights(NamedTuple):
    """Weights of two inputs [batch, head, 1, position], and the affinity [batch, head, first, second] they come from.

    The affinity is zero where either position is masked; it is neither normalised nor positive.
    """

    first: Tensor
    second: Tensor
    affinity: Tensor
