"""Reinforced alignment (C6): a trained selector picks the keys, softmax weighs them."""

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, logsigmoid

from models.attention.align.base import Align, both, softmax
from models.attention.context import Context
from models.attention.errors import require_features


class Selector(nn.Module):
    """Log-odds that a position is kept, from itself and the mean of all (Shen et al. 2018b, eq. 8–9).

    z_j = wᵀ elu(W [x_j; x̄; x_j ⊙ x̄] + b), x̄ the mean over valid positions

    Shapes: features [batch, head, key, d], valid [batch, head, 1, key] or None -> log-odds [batch, head, 1, key].
    """

    def __init__(self, *, d: int, d_hidden: int) -> None:
        super().__init__()
        self.d = d
        self.hidden = nn.Linear(3 * d, d_hidden)
        self.odds = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, features: Tensor, valid: Tensor | None = None) -> Tensor:
        require_features(features, "features", self.d, self)
        share = torch.ones_like(features[..., :1]) if valid is None else valid.transpose(-2, -1).to(features.dtype)
        mean = (features * share).sum(-2, keepdim=True) / share.sum(-2, keepdim=True).clamp(min=1)
        mean = mean.expand_as(features)
        odds: Tensor = self.odds(elu(self.hidden(torch.cat([features, mean, features * mean], -1))))
        return odds.transpose(-2, -1)


class Reinforced(Align):
    """Softmax over the keys that a selector keeps: reinforced sequence sampling (Shen et al. 2018b; BF §3.2.2, S §5.1).

    keep_j ~ Bernoulli(sigmoid(z_j));  a_l = keep_l exp(e_l) / Σ_j keep_j exp(e_j)

    With `Context(noise=uniform numbers)` a key is kept where its number is below its probability (one draw a key: the
    first query's row is read); without, where the probability is above 1/2 when serving, and at random when training.
    The selector learns by REINFORCE from `log_probability`. Where nothing is kept, the weights are zeros.

    Shapes: scores [..., query, key], context.key [batch, head, key, d_k] -> weights of the scores' shape.
    Raises: ShapeError where d_k differs from what it was built for.
    """

    stochastic = True
    sparse = True
    scale_hardens = False
    context_fields = ("noise",)

    def __init__(self, *, d_k: int, d_hidden: int) -> None:
        super().__init__()
        self.selector = Selector(d=d_k, d_hidden=d_hidden)

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return softmax(scores, both(mask, self.selection(mask, context)))

    def selection(self, mask: Tensor | None, context: Context) -> Tensor:
        """Which keys are kept [batch, head, 1, key]."""
        odds = self.log_odds(mask, context)
        noise = context.noise
        if noise is None:
            return torch.rand_like(odds) < odds.sigmoid() if self.training else odds > 0
        return noise[..., :1, :] < odds.sigmoid()

    def log_odds(self, mask: Tensor | None, context: Context) -> Tensor:
        """Log-odds of keeping each key [batch, head, 1, key]."""
        valid = None if mask is None else mask.any(-2, keepdim=True)
        odds: Tensor = self.selector(context.required("key", self), valid)
        return odds

    def log_probability(self, selection: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        """Log-probability of a selection [batch, head, 1, key], differentiable in the selector -> [batch, head]."""
        odds = self.log_odds(mask, context)
        each = torch.where(selection, logsigmoid(odds), logsigmoid(-odds))
        valid = torch.ones_like(selection) if mask is None else mask.any(-2, keepdim=True)
        return (each * valid).sum((-2, -1))
