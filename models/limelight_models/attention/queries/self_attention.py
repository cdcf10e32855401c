"""Token-to-token self-attention (H3): every position asks about every position."""

from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import require_features
from limelight_models.attention.flat import attend, require_one_row
from limelight_models.attention.weights import AroundAttention


class SelfAttention(AroundAttention, nn.Module):
    """Queries, keys and values from the same features (Vaswani et al. 2017, §3.2.3; survey BF eq. 35–37).

    Q = W_Q F, K = W_K F, V = W_V F;  f_new = c (eq. 36), or Normalize(f + c) where `residual` is set (eq. 37)

    A map is made where its size is given; without one the features themselves are used (as with `MultiHead`, which
    projects by itself).

    Shapes: features [batch, position, d_f], mask broadcastable to [batch, head, query, key]
        -> features [batch, position, d_v], weights [batch, head, position, position(, feature)].
    Raises: CombinationError at construction where `residual` is set and the alignment gives several rows a query;
        ShapeError where the features differ from `d_f`, or the context vectors do and `residual` is set.
    """

    def __init__(
        self,
        *,
        attention: nn.Module,
        d_f: int,
        d_q: int | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
        residual: bool = False,
    ) -> None:
        super().__init__()
        if residual:
            require_one_row(attention, "each position's features take one context vector")
        self.attention, self.d_f = attention, d_f
        self.query_map, self.key_map, self.value_map = (
            nn.Identity() if size is None else nn.Linear(d_f, size, bias=False) for size in (d_q, d_k, d_v)
        )
        self.norm = nn.LayerNorm(d_f) if residual else None

    def forward(
        self, features: Tensor, mask: Tensor | None = None, context: Context | None = None
    ) -> tuple[Tensor, Tensor]:
        require_features(features, "features", self.d_f, self)
        query, key, value = self.query_map(features), self.key_map(features), self.value_map(features)
        context_vectors, weights = attend(self.attention, query, key, value, mask, context)
        if self.norm is None:
            return context_vectors, weights
        require_features(context_vectors, "context vectors", self.d_f, self)
        return self.norm(features + context_vectors), weights
