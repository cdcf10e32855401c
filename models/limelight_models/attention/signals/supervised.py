"""Supervised attention (I1): weights are told where to look."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import in_single
from limelight_models.attention.signals.mean import mean_where, safe_log


def gold_cross_entropy(weights: Tensor, gold: Tensor, mask: Tensor | None = None) -> Tensor:
    """Cross-entropy of weights with gold weights (Liu et al. 2016, eq. 12; Mi et al. 2016b; survey G §4.1.2).

    L = -Σ_l g_l log a_l, mean over the queries that have gold weights (a row of zeros says that there are none)

    Shapes: weights and gold [batch, head, query, key] (gold's rows sum to 1 or 0), mask of queries broadcastable to
        [batch, head, query] -> a number.
    """
    gold = in_single(gold)
    return mean_where(-(gold * safe_log(weights)).sum(-1), with_gold(gold, mask).expand(weights.shape[:-1]))


def gold_squared_error(weights: Tensor, gold: Tensor, mask: Tensor | None = None) -> Tensor:
    """Squared error of weights (Liu et al. 2016, eq. 10; survey G §4.1.2).

    L = ½ Σ_l (a_l - g_l)², mean over the queries that have gold weights

    Shapes: as for `gold_cross_entropy`.
    """
    gold = in_single(gold)
    errors = (in_single(weights) - gold).square().sum(-1) / 2
    return mean_where(errors, with_gold(gold, mask).expand(errors.shape))


def gold_overlap(weights: Tensor, gold: Tensor, mask: Tensor | None = None) -> Tensor:
    """Negative logarithm of the weight on gold keys (Liu et al. 2016, eq. 11; survey G §4.1.2).

    L = -log Σ_l g_l a_l, mean over the queries that have gold weights

    Shapes: as for `gold_cross_entropy`.
    """
    gold = in_single(gold)
    overlap = (gold * in_single(weights)).sum(-1)
    return mean_where(-safe_log(overlap), with_gold(gold, mask).expand(overlap.shape))


def gold_gates(weights: Tensor, gold: Tensor, mask: Tensor | None = None) -> Tensor:
    """Cross-entropy of gates, each from 0 to 1 by itself (Kumar et al. 2016, §2.3; survey G §4.1).

    L = -log (1 - Π_{l: g_l > 0} (1 - a_l)) - Σ_{l: g_l = 0} log (1 - a_l), mean over the queries that have gold weights

    A gate opens with the probability a_l: one of the gold keys is to come in, and no other key. Of several, which one
    is left open, as a pass through a story may find one fact and the next pass another.

    Shapes: as for `gold_cross_entropy`.
    """
    shut = safe_log(1 - in_single(weights))
    of_gold = torch.where(gold > 0, shut, torch.zeros_like(shut)).sum(-1)
    losses = -safe_log(-torch.expm1(of_gold)) - (shut.sum(-1) - of_gold)
    return mean_where(losses, with_gold(gold, mask).expand(losses.shape))


def with_gold(gold: Tensor, mask: Tensor | None) -> Tensor:
    """True for queries that have gold weights and are allowed."""
    told = gold.sum(-1) > 0
    return told if mask is None else told & mask
