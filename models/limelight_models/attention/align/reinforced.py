"""Reinforced alignment (C6): a trained selector picks the keys, softmax weighs them."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, logsigmoid

from limelight_models.attention.alignment import Align, both, softmax, whole
from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError, require_features
from limelight_models.attention.signals.reinforce import selection_cost

_CERTAIN = 1e4  # log-odds of what always happens


class Selector(nn.Module):
    """Log-odds that a position is kept, from itself and the mean of all (Shen et al. 2018b, eq. 8–9).

    z_j = wᵀ elu(W [x_j; x̄; x_j ⊙ x̄] + b) + b', x̄ the mean over valid positions

    Shapes: features [batch, head, key, d], valid [batch, head, 1, key] or None -> log-odds [batch, head, 1, key].
    """

    def __init__(self, *, d: int, d_hidden: int, start: float = 0.0) -> None:
        super().__init__()
        self.d = d
        self.hidden = nn.Linear(3 * d, d_hidden)
        self.odds = nn.Linear(d_hidden, 1)
        nn.init.constant_(self.odds.bias, start)

    def forward(self, features: Tensor, valid: Tensor | None = None) -> Tensor:
        require_features(features, "features", self.d, self)
        share = torch.ones_like(features[..., :1]) if valid is None else valid.transpose(-2, -1).to(features.dtype)
        share = share / share.sum(-2, keepdim=True).clamp(min=1)  # before anything is summed, which half precision ends
        mean = (features * share).sum(-2, keepdim=True)
        mean = mean.expand_as(features)
        odds: Tensor = self.odds(elu(self.hidden(torch.cat([features, mean, features * mean], -1))))
        return odds.transpose(-2, -1)


class Selection(NamedTuple):
    """Places that the samplers kept: keys [batch, head, 1, key]; chosen queries [batch, head, query, 1]."""

    keys: Tensor
    queries: Tensor | None = None


class Valid(NamedTuple):
    """Places that can be kept: keys [batch, head, 1, key], queries [batch, head, query, 1]; None for all."""

    keys: Tensor | None = None
    queries: Tensor | None = None


class Reinforced(Align):
    """Softmax over the keys that a selector keeps: reinforced sequence sampling (Shen et al. 2018b; BF §3.2.2, S §5.1).

    keep_j ~ Bernoulli(sigmoid(z_j));  a_l = keep_l exp(e_l) / Σ_j keep_j exp(e_j)

    Reinforced self-attention has two samplers: with `d_q` a second one, of its own weights, keeps queries (the paper's
    head tokens; keys are their dependents), and a query that is not kept gets zeros. A token's attention to itself is
    kept out by `PositionalMask(mask=diagonal_disabled, align=Reinforced(…))`.

    With `Context(noise=uniform numbers)` a key is kept where its number is below its probability (one draw a key: the
    first query's row is read), a query likewise by `query_noise`; without, where the probability is above 1/2 when
    serving, and at random when training. The samplers learn by REINFORCE from `log_probability`, and the paper pays
    for what they keep (`signals.selection_cost`). `start` is b' at first: with 2 they begin by keeping nine of ten.
    Where nothing is kept, the weights are zeros.

    Shapes: scores [..., query, key], context.key [batch, head, key, d_k], context.query [batch, head, query, d_q]
        -> weights of the scores' shape.
    Raises: ShapeError where d_q or d_k differ from what it was built for, or there is no query to choose.
    """

    stochastic = True
    sparse = True
    scale_hardens = False
    context_fields: tuple[str, ...] = ("noise",)

    def __init__(self, *, d_k: int, d_hidden: int, d_q: int | None = None, start: float = 0.0) -> None:
        super().__init__()
        self.selector = Selector(d=d_k, d_hidden=d_hidden, start=start)
        self.query_selector = None if d_q is None else Selector(d=d_q, d_hidden=d_hidden, start=start)
        self.d_q, self.needs_query = d_q, d_q is not None
        if d_q is not None:
            self.context_fields = ("noise", "query_noise")

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        keys, queries = self.selection(mask, context)
        return softmax(scores, both(mask, keys if queries is None else keys & queries))

    def selection(self, mask: Tensor | None, context: Context) -> Selection:
        """Which keys, and which queries, are kept."""
        keys, queries = self.log_odds(mask, context)
        noise = None if context.noise is None else context.noise[..., :1, :]
        of_queries = None if context.query_noise is None else context.query_noise.unsqueeze(-1)
        return Selection(self.drawn(keys, noise), None if queries is None else self.drawn(queries, of_queries))

    def drawn(self, odds: Tensor, noise: Tensor | None) -> Tensor:
        """The places kept, from log-odds."""
        if noise is None:
            return torch.rand_like(odds) < odds.sigmoid() if self.training else odds > 0
        return noise < odds.sigmoid()

    def signals(self, scores: Tensor, mask: Tensor | None, context: Context) -> Mapping[str, Tensor]:
        """The cost is the part of the keys, and of the queries, that was kept, averaged over heads."""
        if context.noise is None:
            return {}
        kept = self.selection(mask, context)
        valid = self.valid(mask, context)
        cost = share_of(kept.keys, valid.keys)
        if kept.queries is not None:
            cost = cost + share_of(kept.queries, valid.queries)
        return {"log_probability": self.log_probability(kept, mask, context).sum(-1), "cost": cost}

    def log_odds(self, mask: Tensor | None, context: Context) -> Selection:
        """Log-odds of keeping each key, and each query."""
        valid = self.valid(mask, context)
        keys = self.selector(context.required("key", self), valid.keys)
        if self.query_selector is None:
            return Selection(keys)
        if context.query is None:
            raise ShapeError("Reinforced was built to choose between queries; there is none")
        asking = None if valid.queries is None else valid.queries.transpose(-2, -1)
        return Selection(keys, self.query_selector(context.query, asking).transpose(-2, -1))

    def log_probability(self, selection: Selection, mask: Tensor | None, context: Context) -> Tensor:
        """Log-probability of a selection, differentiable in the samplers -> [batch, head]."""
        odds, valid = self.log_odds(mask, context), self.valid(mask, context)
        keys = bernoulli(selection.keys, odds.keys, valid.keys)
        if selection.queries is None or odds.queries is None:
            return keys
        return keys + bernoulli(selection.queries, odds.queries, valid.queries)

    def valid(self, mask: Tensor | None, context: Context) -> Valid:
        """Which keys some query may attend to, and which queries may attend to some key."""
        if mask is None:
            return Valid()
        queries = mask.shape[-2] if context.query is None else context.query.shape[-2]
        pairs = whole(mask, queries, context.required("key", self).shape[-2])
        return Valid(pairs.any(-2, keepdim=True), pairs.any(-1, keepdim=True))


def share_of(kept: Tensor, valid: Tensor | None) -> Tensor:
    """The part of what is valid that was kept: [batch, head, …] -> [batch]."""
    return selection_cost(kept.flatten(1), None if valid is None else valid.expand(kept.shape).flatten(1))


def bernoulli(kept: Tensor, odds: Tensor, valid: Tensor | None) -> Tensor:
    """Σ log-probability of independent draws, over what is valid: all [batch, head, …] -> [batch, head]."""
    each = torch.where(kept, logsigmoid(odds), logsigmoid(-odds))
    return (each if valid is None else each * valid).sum((-2, -1))
