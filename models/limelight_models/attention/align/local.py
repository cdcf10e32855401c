"""Local alignments (C4, C5): softmax inside a window of 2D + 1 positions."""

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import Align, both, in_single, softmax, whole
from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError, require_features


def window(centre: Tensor, key_positions: Tensor, radius: float) -> Tensor:
    """True for keys within `radius` of the centre. Shapes: centre [..., query, 1], key_positions [..., 1, key]."""
    return (key_positions - centre).abs() <= radius


class LocalMonotonic(Align):
    """Local alignment, monotonic: query t looks around key t (Luong et al. 2015, §3.2 local-m; survey BF eq. 27).

    a_l = exp(e_l) / Σ_{j=p-D}^{p+D} exp(e_j), with p the query's position

    A query whose window holds no allowed key gets zeros.

    Shapes: scores [..., query, key], positions from the context (default 0, 1, …) -> weights of the scores' shape.
    """

    key_order = True
    context_fields = ("query_positions", "key_positions")

    def __init__(self, *, radius: int) -> None:
        super().__init__()
        self.radius = radius

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        query_positions, key_positions = context.positions(scores)
        return softmax(scores, both(mask, window(query_positions, key_positions, self.radius)))


class LocalPredictive(Align):
    """Local alignment, predictive: the query says where to look (Luong et al. 2015, eq. 9–10; survey BF eq. 28–29).

    p = S · sigmoid(w_pᵀ tanh(W_p q));  a_l = softmax_window(e)_l · exp(-(l - p)² / 2σ²), σ = D / 2

    S is the number of keys that the query may attend to. The weights sum to less than 1, as in the paper.

    Shapes: scores [..., query, key], context.query [batch, head, query, d_q] -> weights of the scores' shape.
    Raises: ShapeError where there is no query or d_q differs.
    """

    normalised = False
    key_order = True
    needs_query = True
    scale_hardens = False
    context_fields = ("key_positions",)

    def __init__(self, *, d_q: int, d_p: int, radius: int) -> None:
        super().__init__()
        self.d_q, self.radius = d_q, radius
        self.hidden = nn.Linear(d_q, d_p, bias=False)
        self.position = nn.Linear(d_p, 1, bias=False)

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        centre = self.centre(mask, context)
        key_positions = context.positions(scores)[1]
        nearness = torch.exp(-((key_positions - centre) ** 2) / (2 * (self.radius / 2) ** 2))
        return softmax(scores, both(mask, window(centre, key_positions, self.radius))) * nearness.to(scores.dtype)

    def centre(self, mask: Tensor | None, context: Context) -> Tensor:
        """The predicted position p [batch, head, query, 1], in float32 at least."""
        query, key = context.query, context.required("key", self)
        if query is None:
            raise ShapeError("LocalPredictive predicts the position from the query; there is none")
        require_features(query, "query", self.d_q, self)
        share = self.position(torch.tanh(self.hidden(query))).sigmoid()
        every = torch.ones_like(key[:, :1, None, :, 0], dtype=torch.bool)
        allowed = every if mask is None else whole(mask, mask.shape[-2], key.shape[-2])
        return in_single(share) * allowed.sum(-1, keepdim=True)
