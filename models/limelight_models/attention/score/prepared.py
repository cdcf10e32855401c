"""Keys that are prepared once, however many queries come one by one."""

from torch import Tensor

from limelight_models.attention.context import Context
from limelight_models.attention.scoring import Score


class PreparedKeys(Score):
    """A score over keys that `prepare` has seen already (Bahdanau et al. 2015, appendix A.1.2).

    e = score(q, k) = score'(q, prepare(k))

    "U_a h_j does not depend on i": a decoder maps its keys once, not at each step. What can be done once is the
    score's to say (`Score.prepare`); for many it is nothing, and the keys stay as they are.

    Shapes: query [batch, head, query, d_q], prepared key [batch, head, key, any] -> scores of the score inside.
    """

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score
        self.d_q = score.d_q
        self.multidimensional, self.query_free = score.multidimensional, score.query_free
        self.kernel, self.signed, self.outputs = score.kernel, score.signed, score.outputs
        self.key_order, self.context_fields = score.key_order, score.context_fields

    def prepare(self, key: Tensor) -> Tensor:
        return self.score.prepare(key)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.score.of_prepared(query, key, context)
