"""Feature-based score (B11): windows of keys are judged by their mean and their spread."""

from collections.abc import Sequence

import torch
from torch import Tensor

from limelight_models.attention.alignment import in_single, whole
from limelight_models.attention.context import Context
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.pairwise import Activation
from limelight_models.attention.score.self_attentive import every_query
from limelight_models.attention.scoring import Score


class FeatureBased(Score):
    """Feature-based score over windows (after Li et al. 2019a; survey C Table 2). The query is not read.

    e_l = wᵀ act(W₁ φ₁(K)_l + W₂ φ₂(K)_l + b), φ₁ the mean and φ₂ the standard deviation of keys l - r … l + r

    The mean and the standard deviation of neighbouring keys are the derived features of area attention. Here every key
    has one window of 2r + 1 around it and its own value; area attention has keys and values of its own for all areas
    up to a size. Keys that no query may attend to do not count in a window.

    Shapes: key [batch, head, key, d_k] -> scores [batch, head, query or 1, key].
    Raises: ShapeError where d_k differs from what the score was built for.
    """

    query_free = True
    key_order = True

    def __init__(self, *, d_k: int, d_w: int, radius: int = 1, heads: int = 1, act: Activation = torch.tanh) -> None:
        super().__init__()
        self.d_k, self.radius, self.act = d_k, radius, act
        self.mean_map = HeadLinear(d_in=d_k, d_out=d_w, heads=heads, bias=True)
        self.spread_map = HeadLinear(d_in=d_k, d_out=d_w, heads=heads)
        self.importance = HeadLinear(d_in=d_w, d_out=1, heads=heads)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        mean, spread = group_moments(key, context.mask, self.radius)
        hidden = self.act(self.mean_map(mean) + self.spread_map(spread))
        return every_query(self.importance(hidden).transpose(-2, -1), query)


def group_moments(key: Tensor, mask: Tensor | None, radius: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each key's window, both [batch, head, key, d_k].

    The deviation is that of the differences from the mean: E[x²] - E[x]² cancels where keys lie far from 0.
    """
    keys, position = in_single(key), torch.arange(key.shape[-2], device=key.device)
    last = key.shape[-2] - 1
    places = [position + step for step in range(-radius, radius + 1)]
    windows = [keys.index_select(-2, place.clamp(0, last)) for place in places]
    inside = [((place >= 0) & (place <= last)).unsqueeze(-1) for place in places]
    if mask is not None:
        valid = whole(mask, mask.shape[-2], key.shape[-2]).any(-2).unsqueeze(-1)  # [..., key, 1]
        inside = [own & valid.index_select(-2, place.clamp(0, last)) for own, place in zip(inside, places, strict=True)]
    shares = [own.to(keys.dtype) for own in inside]
    count = sum(shares[1:], shares[0]).clamp(min=1)
    mean = _total(windows, shares) / count
    variance = _total([(each - mean).square() for each in windows], shares) / count
    # The floor keeps the square root's gradient finite for a group of one.
    spread = variance.clamp(min=torch.finfo(key.dtype).eps ** 2).sqrt()
    return mean.to(key.dtype), spread.to(key.dtype)


def _total(values: Sequence[Tensor], shares: Sequence[Tensor]) -> Tensor:
    first, *rest = (value * share for value, share in zip(values, shares, strict=True))
    return sum(rest, first)
