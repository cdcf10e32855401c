"""Scores whose keys are projected once, however many queries come one by one."""

from torch import Tensor

from models.attention.context import Context
from models.attention.score import Additive, Score
from models.attention.score.pairwise import pairwise


class Projected(Score):
    """Additive score over keys that `project` has mapped already (Bahdanau et al. 2015, appendix A.1.2).

    e = wᵀ tanh(W₁ q + b + k'),  k' = W₂ k

    "U_a h_j does not depend on i": a decoder maps its keys once, not at each step.

    Shapes: query [batch, head, query, d_q], projected key [batch, head, key, d_w] -> scores [batch, head, query, key].
    Raises: ShapeError where d_q or d_w differ from what the score was built for.
    """

    def __init__(self, score: Additive) -> None:
        super().__init__()
        self.score = score
        self.d_q, self.d_k = score.d_q, score.importance.weight.shape[-2]

    def project(self, key: Tensor) -> Tensor:
        """Map keys. Shapes: [batch, head, key, d_k] -> [batch, head, key, d_w]."""
        projected: Tensor = self.score.key_map(key)
        return projected

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return pairwise(self.score.query_map(query), key, self.score.pair_score, self.score.chunk)
