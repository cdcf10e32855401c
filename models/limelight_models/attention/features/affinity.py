"""Co-compatibility (G8): affinities made for two inputs. Every score of `score/` is one as well (G §3.4.2).

What a form is worth depends on what follows it. Under a softmax along the keys a term of the query alone says nothing,
and all forms but the concatenation with the product are a general score with a matrix of bounded rank, activated or
not; under an aggregation over both inputs (G7) every term counts.
"""

import torch
from torch import Tensor
from torch.nn.functional import relu

from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.general import General
from limelight_models.attention.score.pairwise import Activation
from limelight_models.attention.scoring import Score


class TanhBilinear(General):
    """Bilinear affinity (Lu et al. 2016, eq. 3; survey BF eq. 12).

    A = act(K₁ᵀ W_A K₂)

    Shapes: first [batch, head, first, d_q], second [batch, head, second, d_k] -> [batch, head, first, second].
    Raises: ShapeError where d_q or d_k differ from what it was built for.
    """

    def __init__(self, *, d_q: int, d_k: int, heads: int = 1, act: Activation = torch.tanh) -> None:
        super().__init__(d_q=d_q, d_k=d_k, heads=heads)
        self.act = act

    def as_dot(self, query: Tensor, key: Tensor) -> None:
        return None

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.act(super().forward(query, key, context))


class ConcatProduct(Score):
    """Concatenation with the product (Seo et al. 2017, eq. 1; Fan et al. 2018, eq. 8; survey BF eq. 13, G eq. 10).

    E = wᵀ [k; q; k ⊙ q]

    The concatenation is never made: wᵀ [k; q; k ⊙ q] = w₁ᵀ k + w₂ᵀ q + (w₃ ⊙ q)ᵀ k. So it is a biased general score
    with a diagonal matrix, 3d numbers in place of d², and a term of the query that only an aggregation sees.

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> [batch, head, query, key].
    Raises: ShapeError where d differs from what it was built for.
    """

    needs_equal_sizes = True

    def __init__(self, *, d: int, heads: int = 1) -> None:
        super().__init__()
        self.d_q = self.d_k = d
        self.weight = HeadLinear(d_in=3 * d, d_out=1, heads=heads)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        of_key, of_query, of_product = self.weight.weight.chunk(3, dim=-2)
        product = (query * of_product.transpose(-2, -1)) @ key.transpose(-2, -1)
        return product + query @ of_query + (key @ of_key).transpose(-2, -1)


class Decomposable(Score):
    """Inputs go through networks of their own and meet in a product (Parikh et al. 2016, eq. 1; survey G eq. 11).

    E = act(W₁ q + b₁)ᵀ act(W₂ k + b₂)

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> [batch, head, query, key].
    Raises: ShapeError where d_q or d_k differ from what it was built for.
    """

    def __init__(self, *, d_q: int, d_k: int, d_w: int, heads: int = 1, act: Activation = relu) -> None:
        super().__init__()
        self.d_q, self.d_k, self.act = d_q, d_k, act
        self.query_map = HeadLinear(d_in=d_q, d_out=d_w, heads=heads, bias=True)
        self.key_map = HeadLinear(d_in=d_k, d_out=d_w, heads=heads, bias=True)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return self.act(self.query_map(query)), self.act(self.key_map(key)), 1.0

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        query, key, _ = self.as_dot(query, key)
        return query @ key.transpose(-2, -1)


class Hermitian(Score):
    """Real part of the Hermitian product of complex projections (Tay et al. 2018b; survey G §3.4.2).

    E = Re((W₁ q)ᴴ (W₂ k)) = Re(W₁ q)·Re(W₂ k) + Im(W₁ q)·Im(W₂ k), with complex W₁, W₂

    Complex numbers are pairs of real ones, because graphs have no complex type. As a function it is a general score
    whose matrix has rank 2 d_c at most, W₁ and W₂ being free: it says nothing that real maps of size 2 d_c could not.
    In the paper the complex product is there for its asymmetry, which W₁ ≠ W₂ gives as well.

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> [batch, head, query, key].
    Raises: ShapeError where d_q or d_k differ from what it was built for.
    """

    def __init__(self, *, d_q: int, d_k: int, d_c: int, heads: int = 1) -> None:
        super().__init__()
        self.d_q, self.d_k = d_q, d_k
        self.query_map = HeadLinear(d_in=d_q, d_out=2 * d_c, heads=heads)  # real parts, then imaginary ones
        self.key_map = HeadLinear(d_in=d_k, d_out=2 * d_c, heads=heads)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return self.query_map(query), self.key_map(key), 1.0

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        # The conjugate's sign and i² cancel, so the two products of parts are one product of pairs.
        return self.query_map(query) @ self.key_map(key).transpose(-2, -1)
