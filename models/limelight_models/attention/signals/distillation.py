"""Attention transfer (I4): a teacher's weights are the target."""

from torch import Tensor

from limelight_models.attention.alignment import in_single
from limelight_models.attention.signals.mean import mean_where, safe_log


def distillation_loss(weights: Tensor, teacher: Tensor, mask: Tensor | None = None) -> Tensor:
    """Divergence of a student's weights from a teacher's (Wang et al. 2020, eq. 5; survey G §4.1.3).

    L = Σ_l t_l (log t_l - log a_l), mean over heads and queries; the teacher gets no gradient

    Shapes: weights and teacher [batch, head, query, key], mask of queries broadcastable to [batch, head, query]
        -> a number.
    """
    teacher = in_single(teacher.detach())
    divergence = (teacher * (safe_log(teacher) - safe_log(weights))).sum(-1)
    return mean_where(divergence, mask)
