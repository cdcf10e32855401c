"""The step that additive, concat, deep and hybrid scores share: every query added to every key."""

from collections.abc import Callable

import torch
from torch import Tensor

Activation = Callable[[Tensor], Tensor]


def pairwise(query: Tensor, key: Tensor, pair_score: Callable[[Tensor], Tensor], chunk: int | None = None) -> Tensor:
    """pair_score(query_i + key_j) for all pairs.

    With `chunk`, queries go that many at a time, so that memory is chunk × key × d_w and not query × key × d_w.
    An export ignores `chunk`: a loop over it would freeze the number of queries.

    Shapes: query [batch, head, query, d_w], key [batch, head, key, d_w];
        pair_score [batch, head, query, key, d_w] -> [batch, head, query, key, …].
    """
    key = key.unsqueeze(-3)
    if chunk is None or torch.compiler.is_exporting():
        return pair_score(query.unsqueeze(-2) + key)
    return torch.cat([pair_score(part.unsqueeze(-2) + key) for part in query.split(chunk, dim=-2)], dim=2)
