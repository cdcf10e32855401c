"""Query updates between two hops of multi-hop attention (BF eq. 41)."""

import torch
from torch import Tensor, nn

from limelight_models.attention.errors import ShapeError, require_features
from limelight_models.attention.score.pairwise import Activation


class QueryTransform(nn.Module):
    """The next query from this query and the context vectors of this hop (survey BF eq. 41).

    q⁽ˢ⁺¹⁾ = transform(q⁽ˢ⁾, c⁽ˢ⁾)

    Shapes: query [batch, query, d_q], context vectors [batch, query, d_v] -> [batch, query, d_q].
    """

    def forward(self, query: Tensor, context_vectors: Tensor) -> Tensor:
        raise NotImplementedError


class ContextAsQuery(QueryTransform):
    """The context is the next query: q⁽ˢ⁺¹⁾ = c⁽ˢ⁾ (Wallaart & Frasincar 2019; survey BF §3.3.2)."""

    def forward(self, query: Tensor, context_vectors: Tensor) -> Tensor:
        return context_vectors


class AddContext(QueryTransform):
    """q⁽ˢ⁺¹⁾ = q⁽ˢ⁾ + c⁽ˢ⁾ (Sukhbaatar et al. 2015, eq. 4; Yang et al. 2016, stacked attention, eq. 21).

    Raises: ShapeError where query and context vectors differ in size.
    """

    def forward(self, query: Tensor, context_vectors: Tensor) -> Tensor:
        if query.shape[-1] != context_vectors.shape[-1]:
            raise ShapeError(
                f"AddContext needs d_q = d_v; query has {query.shape[-1]} features,"
                f" context vectors have {context_vectors.shape[-1]}"
            )
        return query + context_vectors


class MixContext(QueryTransform):
    """q⁽ˢ⁺¹⁾ = act(W [q⁽ˢ⁾; c⁽ˢ⁾] + b) (survey BF §3.3.2, combination by concatenation).

    Raises: ShapeError where query or context vectors have another size than it was built for.
    """

    def __init__(self, *, d_q: int, d_v: int, act: Activation = torch.tanh) -> None:
        super().__init__()
        self.d_q, self.d_v, self.act = d_q, d_v, act
        self.mix = nn.Linear(d_q + d_v, d_q)

    def forward(self, query: Tensor, context_vectors: Tensor) -> Tensor:
        require_features(query, "query", self.d_q, self)
        require_features(context_vectors, "context vectors", self.d_v, self)
        return self.act(self.mix(torch.cat([query, context_vectors], -1)))
