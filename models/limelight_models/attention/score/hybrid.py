"""Additive scores that also read where attention has been: location-aware (B16) and coverage-aware (B19)."""

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError
from limelight_models.attention.score.additive import Additive
from limelight_models.attention.score.pairwise import Activation


class LocationAware(Additive):
    """Location-aware (hybrid) score (Chorowski et al. 2015, eq. 8–9; survey C §6.3).

    f = F * a_{t-1};  e_l = wᵀ act(W₁ q + W₂ k_l + U f_l + b)

    F is a bank of one-dimensional filters over the keys. Without previous weights f is zero (the first step).

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k], context.previous_weights
        [batch, head, query, key] (each query's own; axes of size 1 are shared) -> scores [batch, head, query, key].
    Raises: ShapeError where d_q or d_k differ, or the filter width is even.
    """

    context_fields = ("previous_weights",)
    key_order = True

    def __init__(
        self,
        *,
        d_q: int,
        d_k: int,
        d_w: int,
        filters: int = 4,
        width: int = 5,
        heads: int = 1,
        act: Activation = torch.tanh,
    ) -> None:
        super().__init__(d_q=d_q, d_k=d_k, d_w=d_w, heads=heads, act=act)
        if width % 2 == 0:
            raise ShapeError(f"a filter is centred on its key, so its width must be odd; it is {width}")
        self.convolution = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)
        self.location_map = nn.Linear(filters, d_w, bias=False)

    def of_prepared(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        previous = context.previous_weights
        if previous is None:
            return super().of_prepared(query, key, context)
        features = self.convolution(previous.flatten(0, 2).unsqueeze(1)).transpose(-2, -1)
        location = self.location_map(features).unflatten(0, previous.shape[:3])
        return self.pair_score(self.query_map(query).unsqueeze(-2) + key.unsqueeze(-3) + location)


class CoverageAware(Additive):
    """Coverage-aware score (Tu et al. 2016, eq. 6; survey G §4.2).

    C_l = Σ_{s<t} a_{s,l};  e_l = wᵀ act(W₁ q + W₂ k_l + v C_l + b)

    Without coverage C is zero (the first step).

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k], context.coverage [batch, head, query, key]
        (axes of size 1 are shared) -> scores [batch, head, query, key].
    Raises: ShapeError where d_q or d_k differ from what the score was built for.
    """

    context_fields = ("coverage",)

    def __init__(self, *, d_q: int, d_k: int, d_w: int, heads: int = 1, act: Activation = torch.tanh) -> None:
        super().__init__(d_q=d_q, d_k=d_k, d_w=d_w, heads=heads, act=act)
        self.coverage_map = nn.Linear(1, d_w, bias=False)

    def of_prepared(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        if context.coverage is None:
            return super().of_prepared(query, key, context)
        coverage = self.coverage_map(context.coverage.unsqueeze(-1))
        return self.pair_score(self.query_map(query).unsqueeze(-2) + key.unsqueeze(-3) + coverage)
