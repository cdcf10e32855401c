"""Gradient reversal: a part learns to tell domains apart, and what it reads learns not to (Ganin et al. 2016)."""

import torch
from torch import Tensor


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, features: Tensor, strength: Tensor) -> Tensor:
        context.save_for_backward(strength)
        return features.view_as(features)

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (strength,) = context.saved_tensors  # type: ignore[attr-defined]
        return -strength * gradient, None


def reverse(features: Tensor, strength: Tensor) -> Tensor:
    """The same features, whose gradient comes back as -strength times what it is (§4.2).

    Shapes: features of any shape, strength a number -> the features.
    """
    reversed_: Tensor = _Reverse.apply(features, strength)
    return reversed_
