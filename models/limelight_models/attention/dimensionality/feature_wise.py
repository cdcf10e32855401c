"""Any score made multi-dimensional (D2)."""

from dataclasses import fields, replace

import torch
from torch import Tensor

from limelight_models.attention.context import Context
from limelight_models.attention.errors import CombinationError, require_features
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.scoring import Score


class FeatureWise(Score):
    """One score a feature of the value, by any score function (weights as in survey BF §3.2.3, eq. 30 and 32).

    e_i = score(U_i q, V_i k), for the features i = 1 … d_v

    The construction is this project's own, in no paper: the survey gives the additive score with a shared hidden layer
    only (BF eq. 31, `MultiDimensional`). Here each feature looks at query and key through maps of its own, so that
    scores without parameters differ as well.

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k] -> scores [batch, head, query, key, d_v].
    Memory: d_v times that of the score.
    Raises: CombinationError at construction where the score is multi-dimensional already, or makes heads of its own;
        ShapeError where d_q or d_k differ from what it was built for, or the score was not built for `d_p`.
    """

    multidimensional = True

    def __init__(self, *, score: Score, d_k: int, d_p: int, d_v: int, d_q: int | None = None) -> None:
        super().__init__()
        name = type(score).__name__
        if score.multidimensional:
            raise CombinationError(f"{name} gives one score a feature already")
        if score.makes_heads:
            raise CombinationError(f"{name} makes a head of each of its outputs; here each feature is one")
        self.query_free = score.query_free
        if d_q is None and not self.query_free:
            raise CombinationError(f"{name} reads the query: give its size, d_q")
        self.score, self.d_q, self.d_k, self.d_v = score, d_q, d_k, d_v
        self.kernel, self.signed = score.kernel, score.signed
        self.key_order, self.context_fields = score.key_order, score.context_fields
        self.key_free = score.key_free
        self.query_map = None if self.query_free or d_q is None else HeadLinear(d_in=d_q, d_out=d_p, heads=d_v)
        self.key_map = HeadLinear(d_in=d_k, d_out=d_p, heads=d_v)
        for size in (score.d_k, None if self.query_free else score.d_q):
            require_features(torch.empty(d_p), "U q and V k", size, score)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        heads = key.shape[1]
        queries = self.spread(query, self.query_map)
        keys = self.spread(key, self.key_map)
        scores = self.score(queries, keys, self.spread_context(context, queries, keys))
        return scores.unflatten(1, (heads, self.d_v)).movedim(2, -1)

    def spread(self, tensor: Tensor, feature_map: HeadLinear | None) -> Tensor:
        """[batch, head, position, d] seen by each feature -> [batch, head · d_v, position, d_p]."""
        each = tensor.unsqueeze(2)
        mapped = each.expand(-1, -1, self.d_v, -1, -1) if feature_map is None else each @ feature_map.weight
        return mapped.flatten(1, 2)

    def spread_context(self, context: Context, query: Tensor, key: Tensor) -> Context:
        """The context with the features counted as heads."""
        given = {f.name: getattr(context, f.name) for f in fields(context) if f.name not in ("query", "key")}
        wide = {n: t.repeat_interleave(self.d_v, 1) for n, t in given.items() if has_heads(t)}
        return replace(context, query=query, key=key, **wide)


def has_heads(tensor: Tensor | None) -> bool:
    """True where the second axis of a context's field holds several heads, and does not just broadcast."""
    return tensor is not None and tensor.dim() >= 3 and tensor.shape[1] > 1
