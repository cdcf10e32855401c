"""Readers that keep track of what they have read (I5): as numbers, in parts of a fertility, or as vectors."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import average
from limelight_models.attention.general import FeatureAttention
from limelight_models.attention.score import Additive, CoverageAware
from limelight_models.attention.signals import (
    CoverageVectors,
    Fertility,
    coverage,
    coverage_penalty,
    fertility_coverage,
)
from limelight_models.cards.labels import numbered
from limelight_models.cards.maps import map_of
from limelight_models.catalogue.testbed.form import ServedForm, read_by
from limelight_models.catalogue.testbed.readers import STEPS, Reader, Stepwise
from limelight_models.catalogue.testbed.taxonomy import ADDITIVE
from limelight_models.catalogue.testbed.text import ATTENTION, TOKENS, Texts

D_COVERAGE = 8  # of a word's coverage vector; Tu et al. 2016 have 10


class Signal(nn.Module):
    """A function as a module without parameters."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor | float) -> Tensor:
        return self.function(*tensors)


class Covered(Stepwise):
    """Three looks that know how much of each word's need has been met; looking again is penalised in training."""

    def __init__(self, texts: Texts, *, fertility: bool) -> None:
        d = texts.d
        super().__init__(attention=Attention(score=CoverageAware(d_q=d, d_k=d, d_w=d)), d=d)
        self.fertility = Fertility(d_k=d) if fertility else None
        self.count = Signal(fertility_coverage if fertility else coverage)

    def covered(self, rows: Sequence[Tensor], nothing: Tensor, features: Tensor) -> Tensor:
        needs = [] if self.fertility is None else [self.fertility(features)]
        return self.count(torch.cat([*rows, nothing], 2), *needs)[:, :, -1:]

    def signals(self, features: Tensor, mask: Tensor, noise: Tensor | None) -> Mapping[str, Tensor]:
        return {"penalty": coverage_penalty(self(features, mask)[1][ATTENTION])}


class CoveredByVectors(Reader):
    """Three looks at words with their coverage vectors beside them.

    q_t = W_q mean(F) + p_t;  c_t, a_t = attention(q_t, W_K [F; C_{t-1}], W_V [F; C_{t-1}])
    """

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        d = texts.d
        self.ask = nn.Linear(d, d)
        self.place = nn.Parameter(torch.randn(STEPS, 1, 1, d) * 0.1)
        attention = Attention(score=Additive(d_q=d, d_k=d, d_w=d))
        self.module = FeatureAttention(attention=attention, d_f=d + D_COVERAGE, d_k=d, d_v=d)
        self.vectors = CoverageVectors(d_c=D_COVERAGE, d_k=d, d_q=d)
        looks = numbered("looks", "hops", "look", STEPS)
        self.maps = {ATTENTION: map_of(attention, "pool", queries=looks, keys=TOKENS, features=d)}

    def forward(
        self, features: Tensor, mask: Tensor, noise: Tensor | None = None
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        start = self.ask(average(features, mask))
        state = features.new_zeros(()).expand(*features.shape[:2], D_COVERAGE)
        rows, found = [], []
        for place in self.place.unbind(0):
            seen = torch.cat([features, state], -1)
            vector, weights = self.module(start + place, seen, mask[:, None, None, :])
            state = self.vectors(state, weights, features, start + place)
            rows.append(weights)
            found.append(vector)
        return torch.cat(found, -1).squeeze(1), {ATTENTION: torch.cat(rows, 2)}


def covered(*, fertility: bool = False) -> ServedForm:
    """Coverage as a number a word, of which a predicted fertility may be the unit."""
    return read_by(lambda t: Covered(t, fertility=fertility), score="coverage-aware")


def by_vectors() -> ServedForm:
    """Coverage as a vector a word."""
    return read_by(CoveredByVectors, score=ADDITIVE)
