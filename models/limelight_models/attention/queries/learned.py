"""A trained query (BF eq. 34): the question is the same for every instance."""

import torch
from torch import Tensor, nn


class LearnedQuery(nn.Module):
    """Queries that are parameters (survey BF §3.3.1, eq. 34).

    q ∈ ℝ^{count × d_q}, trained with the model

    Shapes: features [batch, …] -> query [batch, head, count, d_q].
    """

    def __init__(self, *, d_q: int, count: int = 1, heads: int = 1) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(heads, count, d_q) / d_q**0.5)

    def forward(self, features: Tensor) -> Tensor:
        return self.query.expand(features.shape[0], -1, -1, -1)
