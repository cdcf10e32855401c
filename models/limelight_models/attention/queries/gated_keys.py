"""Multi-head attention whose tokens carry gates, for what reads them beside the keys."""

from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention.core import Attention
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.queries.multi_head import MultiHead


class GatedKeys(MultiHead):
    """Multi-head attention whose keys have features more: the gates of a token in each head, g = W_g x + b_g.

    gates: of a token in a head. bias: whether there is b_g.

    Shapes: as `MultiHead` of features that attend to themselves; the attention reads keys [k; g].
    """

    def __init__(
        self, attention: Attention | Effective[Any], *, d_model: int, heads: int, gates: int = 1, bias: bool = True
    ) -> None:
        super().__init__(attention=attention, d_model=d_model, heads=heads)
        self.gate_map = nn.Linear(d_model, heads * gates, bias=bias)

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """q, [k; g] and v."""
        q, k, v = super().project(query, key, value)
        return q, torch.cat([k, self.split(self.gate_map(key))], -1), v
