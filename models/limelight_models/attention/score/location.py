"""Location-based score (B10): where to look follows from the query alone."""

import torch
from torch import Tensor

from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.scoring import Score


class LocationBased(Score):
    """Location-based score (Luong et al. 2015, eq. 8; survey G Table 3, C Table 2).

    e_l = (W q + b)_l, the content of the keys being ignored

    Shapes: query [batch, head, query, d_q], key [batch, head, key, any] -> scores [batch, head, query, key].
    Raises: ShapeError where there are more than `max_keys` keys, or d_q differs.
    """

    key_free = True
    key_order = True

    def __init__(self, *, d_q: int, max_keys: int, heads: int = 1) -> None:
        super().__init__()
        self.d_q, self.max_keys = d_q, max_keys
        self.position_map = HeadLinear(d_in=d_q, d_out=max_keys, heads=heads, bias=True)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        if not torch.compiler.is_exporting() and key.shape[-2] > self.max_keys:
            raise ShapeError(f"LocationBased was built for at most {self.max_keys} keys; there are {key.shape[-2]}")
        # A gather and not a slice: a slice would tie an exported graph to lengths up to max_keys.
        return self.position_map(query).index_select(-1, torch.arange(key.shape[-2], device=key.device))
