"""From weights and values to context vectors (BF eq. 4, G eq. 8–9)."""

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError, require_features


def weighted_sum(weights: Tensor, value: Tensor) -> Tensor:
    """Context vectors, c = Σ_i a_i v_i (BF eq. 4); feature by feature where weights have that axis (BF eq. 30).

    Shapes: weights [batch, head, query, key(, feature)], value [batch, head, key, d_v] -> [batch, head, query, d_v].
    Raises: ShapeError where the weights' features are not the value's.
    """
    if weights.dim() == value.dim():
        return weights @ value
    if weights.shape[-1] != value.shape[-1]:
        raise ShapeError(f"weights have {weights.shape[-1]} features a key, value has {value.shape[-1]}")
    return torch.einsum("bhqkf,bhkf->bhqf", weights, value)


class Combine(nn.Module):
    """Combination of weights and values into context vectors.

    Shapes: weights [batch, head, query, key(, feature)], value [batch, head, key, d_v] -> [batch, head, query, …].
    """

    needs_multidimensional: bool | None = None  # True: needs feature-wise weights; False: cannot take them

    def forward(self, weights: Tensor, value: Tensor, context: Context) -> Tensor:
        raise NotImplementedError


class WeightedSum(Combine):
    """The common combination, c = Σ_i a_i v_i (BF eq. 4, G eq. 9)."""

    def forward(self, weights: Tensor, value: Tensor, context: Context) -> Tensor:
        return weighted_sum(weights, value)


class FusionGate(Combine):
    """Gated combination of the attended values with the query's own features (Shen et al. 2018a, eq. 19–20; G §2.2).

    s = Σ_i a_i v_i;  g = sigmoid(W_s s + W_q q + b);  c = g ⊙ q + (1 - g) ⊙ s

    Shapes: query and value of size d -> [batch, head, query, d].
    Raises: ShapeError where query or value have another size than `d`.
    """

    def __init__(self, *, d: int) -> None:
        super().__init__()
        self.d = d
        self.gate = nn.Linear(2 * d, d)

    def forward(self, weights: Tensor, value: Tensor, context: Context) -> Tensor:
        query = context.required("query", self)
        require_features(query, "query", self.d, self)
        require_features(value, "value", self.d, self)
        summary = weighted_sum(weights, value)
        gate = self.gate(torch.cat([summary, query.expand_as(summary)], -1)).sigmoid()
        return gate * query + (1 - gate) * summary
