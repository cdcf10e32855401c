"""Outer-product attention (B18): feature-wise products, tanh, and a matrix for a context."""

from torch import Tensor

from limelight_models.attention.combine import Combine
from limelight_models.attention.context import Context
from limelight_models.attention.scoring import Score


class ElementwiseProduct(Score):
    """Score of outer-product attention (Le et al. 2020, eq. 4; survey S §5.1), for `Tanh` and `OuterProduct`.

    e = q ⊙ k

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key, d].
    Raises: ShapeError where query and key differ in size.
    """

    multidimensional = True
    needs_equal_sizes = True

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return query.unsqueeze(-2) * key.unsqueeze(-3)


class OuterProduct(Combine):
    """Outer product of weights and values (Le et al. 2020, eq. 4), its rows laid one after the other.

    c = Σ_l a_l ⊗ v_l

    Shapes: weights [batch, head, query, key, d], value [batch, head, key, d_v] -> [batch, head, query, d · d_v].
    """

    needs_multidimensional = True

    def forward(self, weights: Tensor, value: Tensor, context: Context) -> Tensor:
        return (weights.transpose(-2, -1) @ value.unsqueeze(2)).flatten(-2)
