"""The loss that keeps adaptive spans short (C14)."""

from torch import Tensor

from limelight_models.attention.alignment import in_single


def span_penalty(spans: Tensor, weight: float = 1.0) -> Tensor:
    """Price of looking far: a head reaches only as far as it pays (Sukhbaatar et al. 2019, eq. 5; survey C §8.8).

    L = λ / M Σ_h z_h, over the M heads

    Shapes: spans z of any shape (`AdaptiveSpan.span`) -> a number.
    """
    return weight * in_single(spans).mean()
