"""How late attention lets an output be written: delays of monotonic heads (Ma et al. 2020, §3)."""

import torch
from torch import Tensor

from limelight_models.attention.signals.mean import mean_where


def expected_delays(weights: Tensor) -> Tensor:
    """g_i = Σ_j j α_ij: how many keys have been read, on average, where a step looks.

    Shapes: weights [..., query, key] -> [..., query].
    """
    places = torch.arange(1, weights.shape[-1] + 1, device=weights.device).to(weights.dtype)
    return (weights * places).sum(-1)


def slowest(delays: Tensor) -> Tensor:
    """g_i = Σ_h softmax_h(g_ih) g_ih: that of the last heads, which all wait for, in a form that has gradients.

    Shapes: delays [batch, head, query] -> [batch, query].
    """
    return (delays.softmax(1) * delays).sum(1)


def average_lagging(delays: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Differentiable average lagging: keys by which a writer is behind one who keeps pace from the first key on.

    DAL = 1/|y| Σ_i (g'_i - (i-1)/γ), g'_i = max(g_i, g'_{i-1} + 1/γ), γ = |y| / |x| (Cherry & Foster 2019)

    so that each term is the largest g_k - (k-1)/γ of all k ≤ i.

    Shapes: delays [batch, query], masks bool queries [batch, query] and keys [batch, key] -> a number.
    """
    pace = keys.sum(1, keepdim=True) / queries.sum(1, keepdim=True).clamp(min=1)
    steps = torch.arange(delays.shape[1], device=delays.device)
    behind = (delays - steps * pace).cummax(1).values
    return mean_where(behind, queries)


def spread(delays: Tensor, queries: Tensor) -> Tensor:
    """Variance of the heads' delays about their mean, of a step: how far apart heads are.

    Shapes: delays [batch, head, query], queries bool [batch, query] -> a number.
    """
    return mean_where((delays - delays.mean(1, keepdim=True)).square().mean(1), queries)
