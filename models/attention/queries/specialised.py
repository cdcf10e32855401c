"""Specialised queries (H2): made from features, not given by the task.

The two kinds of the survey (BF §3.3.1) are the average of an input (`average`, interactive co-attention) and the
context vector of another attention (what `SelfAttentivePool` and every other attention here return).
"""

from torch import Tensor

from models.attention.errors import require_axes


def average(features: Tensor, mask: Tensor | None = None) -> Tensor:
    """The unweighted average of an input, as a query (Ma et al. 2017, §2.2; survey BF eq. 10 and 17).

    q = 1/n Σ_l f_l, over the positions that the mask allows; zeros where there are none

    Shapes: features [batch, position, d], mask [batch, position] -> [batch, 1, d].
    """
    require_axes(features, "features", "batch, position, d")
    if mask is None:
        return features.mean(-2, keepdim=True)
    return share(mask, features).unsqueeze(-2) @ features


def share(mask: Tensor, like: Tensor) -> Tensor:
    """Equal weights over the True entries of the last axis, in the dtype of `like`; zeros where there are none."""
    # Dividing before anything is summed keeps half precision from overflowing.
    return mask.to(like.dtype) / mask.sum(-1, keepdim=True).clamp(min=1).to(like.dtype)
