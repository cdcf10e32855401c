"""Modules around one attention; and of any, the properties of its weights."""

from torch import nn

from limelight_models.weights import Weights, weights_of

__all__ = ["AroundAttention", "Weights", "weights_of"]


class AroundAttention:
    """A module around one `attention`, whose weights it returns as they are."""

    attention: nn.Module

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of the attention's weights."""
        return weights_of(self.attention)
