"""Specialised queries (H2): made from features, not given by the task.

The two kinds of the survey (BF §3.3.1) are the average of another input (`AverageQuery`) and the context vector of
another attention (`Alternating`, `Rotatory`, `TargetObject`).
"""

from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.flat import attend, average, over_keys
from limelight_models.attention.weights import AroundAttention


class AverageQuery(AroundAttention, nn.Module):
    """Attention whose query is the average of another input (Ma et al. 2017, eq. 3; survey BF eq. 10–11).

    q = 1/m Σ_i u_i;  c = attention of q over F

    Shapes: asking u [batch, asking, d_u], features [batch, key, d_f], masks [batch, position]
        -> context vector [batch, d_v], weights [batch, head, 1, key(, feature)].
    """

    def __init__(self, *, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self,
        asking: Tensor,
        features: Tensor,
        asking_mask: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, Tensor]:
        query = average(asking, asking_mask)
        vector, weights = attend(self.attention, query, features, None, over_keys(mask), context)
        return vector.flatten(1), weights
