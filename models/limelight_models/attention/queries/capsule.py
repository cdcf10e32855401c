"""Capsule-based attention (H6): a class is an attention, a probability and a reconstruction."""

from typing import NamedTuple

from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.queries.label_wise import LabelLinear, LabelWise
from limelight_models.attention.weights import Weights, weights_of


class Capsules(NamedTuple):
    """Output of the capsules: context [batch, class, d_v], probability [batch, class], reconstruction as context."""

    context: Tensor
    probability: Tensor
    reconstruction: Tensor


class CapsuleAttention(nn.Module):
    """One attention module a class (Wang et al. 2018, eq. 1–5; survey BF eq. 43–45).

    a_c = align(q_cᵀ K);  c_c = Σ_l a_{c,l} v_l;  p_c = sigmoid(w_cᵀ c_c + b_c);  r_c = p_c c_c

    It is trained with `signals.capsule_loss`. The paper's score is the dot product; any that reads its query will do.

    Shapes: features [batch, key, d_k], value [batch, key, d_v] (default: features), mask [batch, key]
        -> Capsules, weights [batch, head, class, key(, feature)].
    Raises: CombinationError at construction where the score ignores the query.
    """

    def __init__(self, *, attention: nn.Module, classes: int, d_q: int, d_v: int) -> None:
        super().__init__()
        self.capsules = LabelWise(attention=attention, labels=classes, d_q=d_q)
        self.probability = LabelLinear(labels=classes, d_v=d_v)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights."""
        return weights_of(self.capsules)

    def forward(
        self,
        features: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Capsules, Tensor]:
        vectors, weights = self.capsules(features, value, mask, context)
        probability = self.probability(vectors).sigmoid()
        return Capsules(vectors, probability, probability.unsqueeze(-1) * vectors), weights
