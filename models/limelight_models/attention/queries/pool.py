"""Self-attentive pooling (H3): one question for every instance, one vector for all its positions."""

from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError, require_axes
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.queries.learned import LearnedQuery
from limelight_models.attention.weights import AroundAttention


class SelfAttentivePool(AroundAttention, nn.Module):
    """Features summed up by attention whose query is constant (Yang et al. 2016, eq. 5–7; survey BF eq. 33–34).

    c = Σ_l a_l f_l, with the query left out (query-free score) or trained (`d_q`)

    A row with nothing to attend to gives zeros, whatever biases the attention has.

    Shapes: features [batch, position, d_k], value [batch, position, d_v] (default: features), mask [batch, position]
        -> context vector [batch, d_v], weights [batch, head, 1, position(, feature)].
    Raises: ShapeError at construction where the attention needs a query and `d_q` is not given.
    """

    def __init__(self, *, attention: nn.Module, d_q: int | None = None) -> None:
        super().__init__()
        if d_q is None and not reads_no_query(attention):
            raise ShapeError("this attention reads its query: give d_q, the size of a trained query")
        self.attention = attention
        self.query = None if d_q is None else LearnedQuery(d_q=d_q)

    def forward(
        self,
        features: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, Tensor]:
        require_axes(features, "features", "batch, position, d_k")
        query = None if self.query is None else self.query(features).squeeze(1)
        context_vectors, weights = attend(self.attention, query, features, value, over_keys(mask), context)
        vector = context_vectors.flatten(1)
        return vector if mask is None else vector * mask.any(-1, keepdim=True), weights


def reads_no_query(attention: nn.Module) -> bool:
    """True where the attention's score ignores the query, so that it may be None."""
    return bool(getattr(attention, "query_free", False))
