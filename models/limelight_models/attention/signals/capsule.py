"""Joint loss of capsule-based attention (H6)."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import in_single
from limelight_models.attention.flat import average


def capsule_loss(
    probability: Tensor,
    reconstruction: Tensor,
    features: Tensor,
    target: Tensor,
    mask: Tensor | None = None,
    *,
    balanced: bool = False,
) -> Tensor:
    """Probability and reconstruction objectives together (Wang et al. 2018, eq. 6–8; survey BF §3.3.2).

    J = max(0, 1 + Σ_c y_c p_c);  U = max(0, 1 + Σ_c y_c fᵀ r_c);  L = J + U, mean over the batch
    y_c = -1 for the right class and 1 for the others, f = average of the features

    balanced: the others share the 1 between them, y_c = 1 / (C - 1). With two classes that is the same; with more, each
    class is wrong more often than right, and as the paper has it every probability can sink to 0 before any is learned.

    Shapes: probability [batch, class], reconstruction [batch, class, d], features [batch, key, d], target integer
        [batch], mask [batch, key] -> a number.
    """
    classes = torch.arange(probability.shape[-1], device=probability.device)
    other = 1 / max(1, len(classes) - 1) if balanced else 1.0
    sign = in_single(torch.where(classes == target.unsqueeze(-1), -1.0, other).to(probability.dtype))
    similarity = (in_single(reconstruction) * average(in_single(features), mask)).sum(-1)
    objectives = [(1 + (sign * score).sum(-1)).clamp(min=0) for score in (in_single(probability), similarity)]
    return torch.stack(objectives).sum(0).mean()
