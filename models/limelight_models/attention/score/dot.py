"""Dot products: multiplicative (B3) and scaled multiplicative (B4)."""

import math

from torch import Tensor

from limelight_models.attention.context import Context
from limelight_models.attention.scoring import Score


class Dot(Score):
    """Multiplicative, or dot-product, score (Luong et al. 2015, eq. 8; survey BF Table 2, G Table 3, C Table 2).

    e = qᵀ k

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key].
    Raises: ShapeError where query and key differ in size.
    """

    needs_equal_sizes = True

    def scale(self, key: Tensor) -> float:
        """Factor of the product."""
        return 1.0

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return query, key, self.scale(key)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        # Scaling the query first keeps half precision from overflowing in the product.
        return (query * self.scale(key)) @ key.transpose(-2, -1)


class ScaledDot(Dot):
    """Scaled multiplicative score (Vaswani et al. 2017, eq. 1; survey BF Table 2).

    e = qᵀ k / √d_k

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key].
    Raises: ShapeError where query and key differ in size.
    """

    def scale(self, key: Tensor) -> float:
        return 1 / math.sqrt(key.shape[-1])
