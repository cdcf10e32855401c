"""The steps that training signals share."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import in_single


def safe_log(probabilities: Tensor) -> Tensor:
    """log p, with the logarithm of the smallest normal number in place of -∞."""
    return in_single(probabilities).clamp(min=torch.finfo(torch.float32).tiny).log()


def mean_where(values: Tensor, mask: Tensor | None) -> Tensor:
    """The mean of the entries that the mask allows; 0 where there are none.

    Shapes: values of any shape, mask broadcastable to it -> a number.
    """
    if mask is None:
        return values.mean()
    allowed = mask.expand(values.shape)
    return torch.where(allowed, values, torch.zeros_like(values)).sum() / allowed.sum().clamp(min=1)
