"""Controls of attention: the same modules with uniform weights, and the parameters that determine weights.

Kept apart from the equations, which know nothing of it. A module elsewhere takes part by registering its class
(`uniform.register`), or by an attribute `deciding`: the names of its parts whose parameters decide weights.
"""

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention.align.reinforced import Selector
from limelight_models.attention.alignment import Align
from limelight_models.attention.context import Context
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.effective.groups import HeadGroups
from limelight_models.attention.effective.kernel import KernelSums
from limelight_models.attention.features.aggregate import Aggregate, Side
from limelight_models.attention.general import FeatureAttention
from limelight_models.attention.queries.learned import LearnedQuery
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.queries.self_attention import SelfAttention
from limelight_models.attention.scoring import Score

_CERTAIN = 1e4  # log-odds of what always happens
_WHOLE = (Score, Align, Aggregate, Selector, LearnedQuery, Effective)
_MAPPING = (MultiHead, SelfAttention, FeatureAttention)


@singledispatch
def uniform(module: nn.Module) -> nn.Module | None:
    """A module of equal size that gives the same score for every key, to put in one's place; None where it has none."""
    return None


def deciding(module: nn.Module) -> Iterator[nn.Module]:
    """The parts of one module whose parameters decide weights, those of modules inside of it aside."""
    if isinstance(module, _WHOLE):
        yield module
    usual = ("query_map", "key_map", "gate_map") if isinstance(module, _MAPPING) else ()
    for name in (*usual, *getattr(module, "deciding", ())):
        part = module.get_submodule(name) if not name or hasattr(module, name) else None
        if part is not None:
            yield part


class Uniform(Score):
    """The same score for every key, in the shape and with the parameters of another score.

    e = 0, or 1 where the scores are a kernel's values, so that softmax as well as division by the sum gives an average

    Shapes: as the other score.
    """

    key_free = True

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score
        self.multidimensional, self.query_free, self.kernel = score.multidimensional, score.query_free, score.kernel
        self.needs_equal_sizes, self.makes_heads = score.needs_equal_sizes, score.makes_heads
        self.context_fields, self.d_q, self.d_k, self.outputs = (
            score.context_fields,
            score.d_q,
            score.d_k,
            score.outputs,
        )

    def prepare(self, key: Tensor) -> Tensor:
        return self.score.prepare(key)

    def of_prepared(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.same(self.score.of_prepared(query, key, context))

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.same(self.score(query, key, context))

    def same(self, scores: Tensor) -> Tensor:
        """One number in the place of each."""
        return torch.ones_like(scores) if self.kernel else torch.zeros_like(scores)


class UniformAggregate(Aggregate):
    """The same score for every position, with the parameters of another aggregation.

    first, second: whether for this input.
    """

    def __init__(self, aggregate: Aggregate, *, first: bool = True, second: bool = True) -> None:
        super().__init__()
        self.aggregate, self.first, self.second = aggregate, first, second

    def scores(self, affinity: Tensor, first: Side, second: Side, align: Align) -> tuple[Tensor, Tensor]:
        ours, theirs = self.aggregate.scores(affinity, first, second, align)
        return torch.zeros_like(ours) if self.first else ours, torch.zeros_like(theirs) if self.second else theirs


@uniform.register
def _of_aggregate(module: Aggregate) -> UniformAggregate | None:
    """One without scores gives equal weights where those of its affinity are."""
    return UniformAggregate(module) if module.has_scores else None


class KeepAll(nn.Module):
    """Keeps every position, with the parameters of a selector.

    Shapes: as the selector.
    """

    def __init__(self, selector: Selector) -> None:
        super().__init__()
        self.selector = selector

    def forward(self, features: Tensor, valid: Tensor | None = None) -> Tensor:
        return torch.full_like(self.selector(features, valid), _CERTAIN)


class EqualSums(KernelSums):
    """The same weight for every key, with the parameters of other attention that forms no weights.

    φ(q) = φ(k) = 1

    Shapes: as `KernelSums`.
    """

    def __init__(self, attention: Effective[Any]) -> None:
        super().__init__(causal=attention.causal)
        self.attention = attention

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return torch.ones_like(query[..., :1]), torch.ones_like(key[..., :1])


class EqualChosen(Effective[Any]):
    """The same weight for every key that a query reads, which other attention chooses.

    Shapes: as `Effective`.
    """

    def __init__(self, attention: Effective[Any]) -> None:
        super().__init__(causal=attention.causal)
        self.attention, self.normalised = attention, attention.normalised

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Any:
        made = self.attention.prepare(query, key, mask)
        return made._replace(query=torch.zeros_like(made.query))

    def sums(self, prepared: Any, value: Tensor) -> Tensor:
        return self.attention.sums(prepared, value)

    def rows(self, prepared: Any, index: Tensor) -> Tensor:
        return self.attention.rows(prepared, index)

    def allowed(self, prepared: Any, index: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
        return self.attention.allowed(prepared, index, key, mask)


@uniform.register
def _of_effective(module: Effective) -> Effective[Any] | None:
    """Groups of heads have parts, each of which has its own."""
    if isinstance(module, HeadGroups):
        return None
    return EqualChosen(module) if module.chooses else EqualSums(module)


uniform.register(Score, Uniform)
uniform.register(Selector, KeepAll)
