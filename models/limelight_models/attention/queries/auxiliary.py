"""The basic query of auxiliary variables (H1): what is known beside the input says what to look for in it."""

import torch
from torch import Tensor, nn

from limelight_models.attention.errors import require_axes, require_features
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.score.pairwise import Activation
from limelight_models.attention.weights import AroundAttention


class AuxiliaryQuery(AroundAttention, nn.Module):
    """Attention whose query is a vector of auxiliary variables (Brauwers and Frasincar 2023; survey BF §3.3.1).

    q = act(W x + b);  c = attention of q over F

    The survey's example: characteristics of a patient, asked of a medical image.

    Shapes: variables x [batch, d_x], features [batch, key, d_f], mask [batch, key]
        -> context vector [batch, d_v], weights [batch, head, 1, key(, feature)].
    Raises: ShapeError where there are not d_x variables.
    """

    def __init__(self, *, attention: nn.Module, d_x: int, d_q: int, act: Activation = torch.tanh) -> None:
        super().__init__()
        self.attention, self.d_x, self.act = attention, d_x, act
        self.ask = nn.Linear(d_x, d_q)

    def forward(self, variables: Tensor, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        require_axes(variables, "variables", "batch, d_x")
        require_features(variables, "variables", self.d_x, self)
        query = self.act(self.ask(variables)).unsqueeze(1)
        vector, weights = attend(self.attention, query, features, None, over_keys(mask))
        return vector.flatten(1), weights
