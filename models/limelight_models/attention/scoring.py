"""The interface of score functions."""

from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError, require_features


class Score(nn.Module):
    """Relevance of each key for each query (BF eq. 2 and 23; G: compatibility, C: alignment function).

    e = score(q, k)

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key],
        with a further axis `feature` where the score is `multidimensional`.
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    multidimensional: bool = False  # one score per feature of the value
    query_free: bool = False  # ignores the query, which may then be None
    key_free: bool = False  # ignores the content of the keys
    kernel: bool = False  # a similarity kernel: scores can be divided by their sum
    signed: bool = False  # a kernel whose estimates may be negative
    key_order: bool = False  # reads the order of the keys, so permuting them matters
    needs_equal_sizes: bool = False  # d_q = d_k
    makes_heads: bool = False  # gives several heads for an input of one
    context_fields: tuple[str, ...] = ()  # what it reads of the context besides query, key and mask
    d_q: int | None = None
    d_k: int | None = None
    outputs: int = 1  # heads that it gives for an input of one

    def check(self, query: Tensor | None, key: Tensor) -> None:
        """Raise ShapeError unless query and key fit."""
        require_features(key, "key", self.d_k, self)
        if self.query_free:
            return
        if query is None:
            raise ShapeError(f"{type(self).__name__} needs a query; only query-free scores do without")
        require_features(query, "query", self.d_q, self)
        if self.needs_equal_sizes and query.shape[-1] != key.shape[-1]:
            raise ShapeError(
                f"{type(self).__name__} needs d_q = d_k; query has {query.shape[-1]} features, key {key.shape[-1]}"
            )

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float] | None:
        """(query', key', scale) with scores = scale · query' key'ᵀ, for fused kernels; None: no such form."""
        return None

    def prepare(self, key: Tensor) -> Tensor:
        """Precompute from keys [batch, head, key, d_k], once for any number of queries; by default nothing."""
        return key

    def of_prepared(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        """The scores for keys that `prepare` has seen."""
        scores: Tensor = self(query, key, context)
        return scores

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        raise NotImplementedError
