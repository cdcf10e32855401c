"""Label-wise attention (H7): every label asks its own question."""

from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import CombinationError
from limelight_models.attention.flat import attend, over_keys, require_one_row
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.queries.learned import LearnedQuery
from limelight_models.attention.queries.pool import reads_no_query
from limelight_models.attention.weights import AroundAttention


class LabelWise(AroundAttention, nn.Module):
    """One distribution and one context vector a label (Barbieri et al. 2018, eq. 1–3; survey G §3.4.1).

    a_c = align(score(q_c, K));  c_c = Σ_l a_{c,l} v_l, with a trained query q_c for each label

    Shapes: features [batch, key, d_k], value [batch, key, d_v] (default: features), mask [batch, key]
        -> context vectors [batch, label, d_v], weights [batch, head, label, key(, feature)].
    Raises: CombinationError at construction where the score ignores the query, so that all labels would look alike,
        or the alignment gives several rows a query.
    """

    def __init__(self, *, attention: nn.Module, labels: int, d_q: int) -> None:
        super().__init__()
        if reads_no_query(attention):
            raise CombinationError(
                "labels differ by their queries only, and this score ignores the query: all labels would look alike"
            )
        require_one_row(attention, "a label has one context vector")
        self.attention = attention
        self.query = LearnedQuery(d_q=d_q, count=labels)

    def forward(
        self,
        features: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, Tensor]:
        queries = self.query(features).squeeze(1)
        return attend(self.attention, queries, features, value, over_keys(mask), context)


class LabelLinear(nn.Module):
    """One number a label, by the label's own weights (Mullenbach et al. 2018, eq. 4; survey BF eq. 44).

    y_c = w_cᵀ c_c + b_c

    Shapes: context vectors [batch, label, d_v] -> [batch, label].
    """

    def __init__(self, *, labels: int, d_v: int) -> None:
        super().__init__()
        self.map = HeadLinear(d_in=d_v, d_out=1, heads=labels, bias=True)

    def forward(self, context_vectors: Tensor) -> Tensor:
        return self.map(context_vectors.unsqueeze(-2)).flatten(1)
