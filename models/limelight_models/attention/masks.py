"""Boolean masks from predicates over index tensors; True means that the query may attend to the key.

A `Mask` takes query positions [..., query, 1] and key positions [..., 1, key] and answers with a boolean
tensor broadcastable to [batch, head, query, key]. Masks combine with `&`, `|` and `~`:

    mask = (masks.causal & masks.window(8) & masks.padding(lengths)).build(query=10, key=10)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mask:
    """A predicate over (query index, key index)."""

    allows: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, query_index: Tensor, key_index: Tensor) -> Tensor:
        return self.allows(query_index, key_index)

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(lambda i, j: self(i, j) & other(i, j))

    def __or__(self, other: "Mask") -> "Mask":
        return Mask(lambda i, j: self(i, j) | other(i, j))

    def __invert__(self) -> "Mask":
        return Mask(lambda i, j: ~self(i, j))

    def build(self, *, query: int, key: int, device: torch.device | None = None) -> Tensor:
        """The mask over positions 0 … query - 1 and 0 … key - 1."""
        return self(torch.arange(query, device=device).unsqueeze(-1), torch.arange(key, device=device).unsqueeze(-2))


everything = Mask(lambda i, j: (i == i) & (j == j))
causal = Mask(lambda i, j: j <= i)
backward = Mask(lambda i, j: j > i)  # DiSAN's names: "backward" reads what follows,
forward = Mask(lambda i, j: j < i)  # "forward" what came before, neither the token itself
diagonal_disabled = Mask(lambda i, j: i != j)


def window(radius: int) -> Mask:
    """Keys at most `radius` positions away."""
    return Mask(lambda i, j: (i - j).abs() <= radius)


def block(size: int) -> Mask:
    """Keys of the query's own block of `size` positions."""
    return Mask(lambda i, j: torch.div(i, size, rounding_mode="floor") == torch.div(j, size, rounding_mode="floor"))


def memory(size: int, before: int) -> Mask:
    """Keys up to the query, from so many positions before the query's block of `size` (Parmar et al. 2018, §3.2)."""
    return Mask(lambda i, j: (j <= i) & (j >= torch.div(i, size, rounding_mode="floor") * size - before))


def padding(lengths: Tensor) -> Mask:
    """Keys before the end of each instance. Shapes: lengths [batch] -> [batch, 1, 1, key]."""
    return Mask(lambda i, j: j < lengths[:, None, None, None])


def valid(keys: Tensor) -> Mask:
    """Keys marked True. Shapes: keys [batch, key] -> [batch, 1, 1, key]."""
    return Mask(lambda i, j: keys[:, None, None, :])


def graph(adjacency: Tensor, *, self_loops: bool = False) -> Mask:
    """Neighbours in a graph, adjacency[b, i, j] = i may attend to j.

    Shapes: adjacency [batch, node, node] -> [batch, 1, node, node].
    """
    edges = adjacency.bool().unsqueeze(1)
    return Mask(lambda i, j: edges | (i == j) if self_loops else edges)
