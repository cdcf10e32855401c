"""Doubly stochastic attention (I6): every key is looked at once in the end."""

from torch import Tensor

from limelight_models.attention.alignment import in_single
from limelight_models.attention.signals.mean import mean_where


def doubly_stochastic_penalty(
    weights: Tensor, query_mask: Tensor | None = None, key_mask: Tensor | None = None, target: float = 1.0
) -> Tensor:
    """Penalty on keys whose weights over all steps do not sum to one (Xu et al. 2015, eq. 14; survey S §3).

    L = Σ_i (1 - Σ_t a_{t,i})², mean over batch and heads

    Shapes: weights [batch, head, query, key], query_mask [batch, query], key_mask [batch, key] -> a number.
    """
    weights = in_single(weights)
    if query_mask is not None:
        weights = weights * query_mask[:, None, :, None]
    missing = (target - weights.sum(-2)).square()
    if key_mask is not None:
        missing = missing * key_mask[:, None, :]
    return mean_where(missing.sum(-1), None)
