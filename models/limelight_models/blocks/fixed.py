"""Scores that learn nothing: what attention is compared with, in the same networks."""

import torch
from torch import Tensor

from limelight_models.attention.context import Context
from limelight_models.attention.score import Score

_DECISIVE = 1e4  # a difference after which softmax is exactly 0 and 1


class Average(Score):
    """The same score for every key, e = 0: softmax over it is a plain average.

    Shapes: query None, key [batch, head, key, d_k] -> zeros [batch, head, 1, key].
    """

    query_free = True

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return torch.zeros_like(key[..., :1]).transpose(-2, -1)


class FinalStates(Score):
    """The last state of each direction and nothing else: an encoder-decoder without attention (Cho et al. 2014).

    Features of the encoder that reads onward come from the last position, those of the other from the first, so the
    weights have a feature axis: onward e_lf = + l, backward e_lf = - l, far enough apart for one to take all.

    Shapes: query [batch, head, 1, any], key [batch, head, key, 2 d_encoder] -> [batch, head, 1, key, 2 d_encoder].
    """

    multidimensional = True
    key_order = True

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        position = torch.arange(key.shape[-2], device=key.device, dtype=key.dtype).unsqueeze(-1)
        feature = torch.arange(key.shape[-1], device=key.device)
        direction = torch.where(feature < key.shape[-1] // 2, _DECISIVE, -_DECISIVE).to(key.dtype)
        return (position * direction + torch.zeros_like(key)).unsqueeze(-3)


class FirstState(Score):
    """The state at the first place and nothing else: all that an encoder knows which reads from the end.

    Shapes: query [batch, head, 1, any], key [batch, head, key, any] -> scores [batch, head, 1, key].
    """

    key_order = True

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        places = torch.arange(key.shape[-2], device=key.device, dtype=key.dtype)
        return (torch.zeros_like(key[..., 0]) - _DECISIVE * places).unsqueeze(-2)
