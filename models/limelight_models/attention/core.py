"""The general attention module: any score with any alignment (BF eq. 1–4, G eq. 6–9)."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from limelight_models.attention.align.kernel import KernelRatio, KernelWeights
from limelight_models.attention.align.soft import Softmax
from limelight_models.attention.alignment import Align, fill, keep
from limelight_models.attention.combine import Combine, WeightedSum
from limelight_models.attention.compatibility import check_combination
from limelight_models.attention.context import Context
from limelight_models.attention.errors import CombinationError, MissingContextError, ShapeError, require_axes
from limelight_models.attention.export_markers import (
    can_be_marked,
    is_marking,
    is_marking_weights,
    marked_attention,
    marked_weights,
)
from limelight_models.attention.scoring import Score
from limelight_models.attention.weights import Weights

__all__ = ["Attention", "CombinationError", "Context", "MissingContextError", "ShapeError"]


class Attention(nn.Module):
    """Attention as the surveys define it: score, align, combine (survey BF eq. 1–4, G eq. 6–9, C eq. 1).

    e = score(q, k);  a = align(e);  c = Σ_l a_l v_l

    Shapes: query [batch, head, query, d_q], key [batch, head, key, d_k], value [batch, head, key, d_v] (default: key),
        mask boolean, True = may attend, broadcastable to [batch, head, query, key]
        -> context vectors [batch, head, query, d_v], weights [batch, head, query, key],
        or [batch, head, query, key, feature] where the score is multi-dimensional.
    Raises: CombinationError at construction where the parts cannot work together; ShapeError where tensors do not fit;
        MissingContextError where a part needs more than the query, the key and the mask.
    """

    takes_heads = True  # its tensors have a head axis

    def __init__(self, *, score: Score, align: Align | None = None, combine: Combine | None = None) -> None:
        super().__init__()
        self.score = score
        self.align = Softmax() if align is None else align
        self.combine = WeightedSum() if combine is None else combine
        check_combination(self.score, self.align, self.combine)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights."""
        made = Weights(
            heads=self.score.outputs,
            rows=self.align.rows,
            normalised=self.normalised and not self.signed,  # estimated kernels may sum to less than 1
            signed=self.signed,
            by_feature=self.score.multidimensional,
        )
        return (made,)

    @property
    def query_free(self) -> bool:
        """Whether the query is not read, so that it may be None."""
        return self.score.query_free

    @property
    def normalised(self) -> bool:
        """Whether the weights of a query sum to 1 (to 0 where there is nothing to attend to)."""
        return self.align.normalised

    @property
    def signed(self) -> bool:
        """Whether weights may be negative."""
        return self.align.signed or (self.align.needs_kernel and self.score.signed)

    def forward(
        self,
        query: Tensor | None,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, Tensor]:
        value = key if value is None else value
        if is_marking() and (marked := self._marked(query, key, value, mask)):
            return marked
        weights, context = self._weights(query, key, value, mask, context)
        return self._combined(weights, value, mask, context)

    def with_scores(
        self,
        query: Tensor | None,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Context vectors, weights, and the scores before alignment: the dtype's lowest where attending is not allowed.

        Shapes: scores as weights. Masks of an alignment's own (windows, directions) do not show in scores.
        """
        value = key if value is None else value
        scores, context = self._scores(query, key, value, mask, context)
        weights = self._aligned(scores, mask, context, value)
        shown = mask if mask is None or not self.score.multidimensional else mask.unsqueeze(-1)
        return *self._combined(weights, value, mask, context), fill(scores, shown)

    def weights(
        self, query: Tensor | None, key: Tensor, mask: Tensor | None = None, context: Context | None = None
    ) -> Tensor:
        """The weights alone, where they are the output (pointer networks, attention over attention)."""
        return self._weights(query, key, key, mask, context)[0]

    def context_vectors(
        self,
        query: Tensor | None,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> Tensor:
        """The context vectors alone. Dot-type scores with softmax run fused, and a kernel's by its features where the
        mask is one row for all queries: neither holds the weights.
        """
        value = key if value is None else value
        if (summed := self._by_features(query, key, value, mask)) is not None:
            return summed
        dot = None if is_marking() else self._as_dot(query, key)
        if dot is None:
            return self(query, key, value, mask, context)[0]
        check_call(self.score, query, key, value, mask)
        plain = scaled_dot_product_attention(dot[0], dot[1], value, attn_mask=mask, scale=dot[2])
        # The fused kernels differ in what they give a query with nothing to attend to: here it is always zeros.
        return plain if mask is None else torch.where(mask.any(-1, keepdim=True), plain, torch.zeros_like(plain))

    def _combined(self, weights: Tensor, value: Tensor, mask: Tensor | None, context: Context) -> tuple[Tensor, Tensor]:
        weights, factor = self.marked(weights, mask)
        combined = self.combine(weights, value, context)
        return combined if factor is None else combined * factor, weights

    def marked(self, weights: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Weights as an intervention leaves them, and the factor of each head's context vectors [batch, head, 1, 1];
        None where no graph is exported. For whoever combines the weights by itself.
        """
        if not is_marking_weights() or self.score.multidimensional:
            return weights, None
        return marked_weights(weights, mask)

    def _by_features(self, query: Tensor | None, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor | None:
        """φ(q) Σ_l φ(k_l) v_lᵀ, divided by φ(q) Σ_l φ(k_l) for a ratio: time and memory grow with queries plus keys
        (Katharopoulos et al. 2020, eq. 4 to 6; Peng et al. 2021, eq. 5). None where this is not such a kernel.
        """
        kernel = type(self.align) in (KernelRatio, KernelWeights) and type(self.combine) is WeightedSum
        if not kernel or query is None or (mask is not None and mask.shape[-2] != 1):
            return None
        check_call(self.score, query, key, value, mask)
        dot = self.score.as_dot(query, key)
        if dot is None:
            return None
        asked, features = dot[0] * dot[2], keep(dot[1], None if mask is None else mask.transpose(-2, -1))
        summed = asked @ (features.transpose(-2, -1) @ value.to(features.dtype))
        if type(self.align) is KernelRatio:
            total = asked @ features.sum(-2, keepdim=True).transpose(-2, -1)
            summed = summed / torch.where(total > 0, total, torch.ones_like(total))
        return summed.to(value.dtype)

    def _as_dot(self, query: Tensor | None, key: Tensor) -> tuple[Tensor, Tensor, float] | None:
        """(query', key', scale) where this is softmax of scale · query' key'ᵀ, then a weighted sum: it can be fused."""
        fused = type(self.align) is Softmax and type(self.combine) is WeightedSum
        return self.score.as_dot(query, key) if fused and query is not None else None

    def _marked(
        self, query: Tensor | None, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor] | None:
        """The same as one operator, which an exported graph computes as it is asked; None where it is not one."""
        check_call(self.score, query, key, value, mask)
        dot = self._as_dot(query, key)
        if dot is None or not can_be_marked(dot[0], dot[1], value):
            return None
        return marked_attention(
            dot[0], dot[1], value, mask if mask is None else mask[(None,) * (4 - mask.dim())], dot[2]
        )

    def _weights(
        self, query: Tensor | None, key: Tensor, value: Tensor, mask: Tensor | None, context: Context | None
    ) -> tuple[Tensor, Context]:
        scores, context = self._scores(query, key, value, mask, context)
        return self._aligned(scores, mask, context, value), context

    def _scores(
        self, query: Tensor | None, key: Tensor, value: Tensor, mask: Tensor | None, context: Context | None
    ) -> tuple[Tensor, Context]:
        check_call(self.score, query, key, value, mask)
        context = replace(context or Context(), query=query, key=key, mask=mask)
        if query is None:
            query = key.new_zeros(()).expand(key.shape[0], key.shape[1], 1, 1)  # one row, for a score that ignores it
        return self.score(query, key, context), context

    def _aligned(self, scores: Tensor, mask: Tensor | None, context: Context, value: Tensor) -> Tensor:
        if not self.score.multidimensional:
            weights = self.align(scores, mask, context)
        else:
            # With the feature axis in front, alignments see [..., query, key] as ever and masks broadcast.
            weights = self.align(scores.movedim(-1, 0), mask, context).movedim(0, -1)
        return weights.to(value.dtype)  # a score may be finer than the features it comes from


def check_call(score: Score, query: Tensor | None, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    """Raise ShapeError unless the tensors of one call fit each other and the score."""
    require_axes(key, "key", "batch, head, key, d_k")
    require_axes(value, "value", "batch, head, key, d_v")
    if query is not None:
        require_axes(query, "query", "batch, head, query, d_q")
    if mask is not None and mask.dtype != torch.bool:
        raise ShapeError(f"mask must be boolean, True = may attend; it is {mask.dtype}")
    score.check(query, key)
    # Comparing lengths during an export would freeze them.
    if not torch.compiler.is_exporting() and key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"key has {key.shape[-2]} positions, value has {value.shape[-2]}")
