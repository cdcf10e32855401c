"""Multi-head attention (H4)."""

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from limelight_models.attention.alignment import in_single
from limelight_models.attention.context import Context
from limelight_models.attention.core import Attention
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.errors import CombinationError, ShapeError, require_axes, require_features
from limelight_models.attention.quantities import AttentionQuantities
from limelight_models.attention.token_packing import Packing
from limelight_models.attention.weights import Weights, weights_of


class MultiHead(nn.Module):
    """Multi-head attention over any `Attention` or `Effective` (Vaswani et al. 2017, §3.2.2; survey BF eq. 38–40).

    head_h = attention(W_Q^h q, W_K^h k, W_V^h v);  output = W_O [head_1; …; head_H]

    The projections and the merge live here: score and alignment see [batch, head, position, d_head] and know nothing
    of the split. d_head: features of a head, by default d_model / heads.

    Shapes: query [batch, query, d_query], key [batch, key, d_key], value [batch, key, d_value] (default: key),
        mask boolean, broadcastable to [batch, head, query, key]
        -> output [batch, query, d_model], weights [batch, head, query, key(, feature)].
    Raises: ShapeError where d_model cannot be divided by heads, unless d_head is given, or an input has another size
        than was declared; CombinationError where the score makes heads of its own.
    """

    def __init__(
        self,
        *,
        attention: Attention | Effective[Any],
        d_model: int,
        heads: int,
        d_head: int | None = None,
        d_query: int | None = None,
        d_key: int | None = None,
        d_value: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if d_head is None and d_model % heads:
            raise ShapeError(f"d_model = {d_model} cannot be divided into {heads} heads")
        if isinstance(attention, Attention) and attention.score.makes_heads:
            name = type(attention.score).__name__
            raise CombinationError(f"{name} makes a head of each of its outputs; MultiHead splits heads itself")
        self.heads = heads
        self.d_query, self.d_key = d_query or d_model, d_key or d_model
        self.d_value = d_value or self.d_key
        self.attention = attention
        inner = d_model if d_head is None else heads * d_head
        self.query_map = nn.Linear(self.d_query, inner, bias=bias)
        self.key_map = nn.Linear(self.d_key, inner, bias=bias)
        self.value_map = nn.Linear(self.d_value, inner, bias=bias)
        self.merge = nn.Linear(inner, d_model, bias=bias)
        for projection in (self.query_map, self.key_map, self.value_map):
            nn.init.xavier_uniform_(projection.weight)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Properties of its weights."""
        return tuple(replace(each, heads=self.heads) for each in weights_of(self.attention))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, Tensor]:
        context_vectors, weights = self.attention(*self.project(query, key, value), mask, context)
        return self.output(context_vectors, query), weights

    def over_itself(self, features: Tensor, packing: Packing, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same of features as query, key and value, that were packed: only the attention between is padded."""
        require_axes(features, "features", "batch, token, d_model")
        for size in (self.d_query, self.d_key, self.d_value):
            require_features(features, "features", size, self)
        maps = (self.query_map, self.key_map, self.value_map)
        projected = [packing.unpack_heads(each(features), self.heads) for each in maps]
        context_vectors, weights = self.attention(*projected, mask)
        return self.merge(packing.pack_heads(context_vectors)), weights

    def quantities(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> tuple[Tensor, AttentionQuantities]:
        """The output, and what it looked at in every quantity.

        norms: ‖a_ij W_O^h (W_V^h v_j + b_V^h)‖, head by head: what key j adds to the output of query i (Kobayashi et
        al. 2020, eq. 4). A key's transformed value is found once, not once a query.

        Raises: CombinationError for attention that has no scores.
        """
        if not isinstance(self.attention, Attention):
            raise CombinationError(f"{type(self.attention).__name__} has no scores")
        queries, keys, values = self.project(query, key, value)
        context_vectors, weights, scores = self.attention.with_scores(queries, keys, values, mask, context)
        merge = self.merge.weight.unflatten(1, (self.heads, -1)).permute(1, 2, 0)  # [head, d_head, d_model]
        added = in_single(values @ merge).square().sum(-1).sqrt().to(values.dtype)  # [batch, head, key]
        return self.output(context_vectors, query), AttentionQuantities(
            weights, scores, weights.abs() * added.unsqueeze(-2)
        )

    def context_vectors(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        context: Context | None = None,
    ) -> Tensor:
        """The output alone, by fused kernels where the score allows."""
        found = self.attention.context_vectors(*self.project(query, key, value), mask, context)
        return self.output(found, query)

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, projected and split: [batch, head, position, d_head]."""
        value = key if value is None else value
        sizes = {"query": (query, self.d_query), "key": (key, self.d_key), "value": (value, self.d_value)}
        for name, (tensor, size) in sizes.items():
            require_axes(tensor, name, f"batch, {'query' if name == 'query' else 'key'}, d_{name}")
            require_features(tensor, name, size, self)
        return self.split(self.query_map(query)), self.split(self.key_map(key)), self.split(self.value_map(value))

    def split(self, features: Tensor) -> Tensor:
        """[batch, position, head × d_head] -> [batch, head, position, d_head]."""
        return features.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def output(self, context_vectors: Tensor, query: Tensor) -> Tensor:
        """What is returned of context vectors [batch, head, query, d_head]; a query may gate them in a subclass."""
        return self.join(context_vectors)

    def join(self, context_vectors: Tensor) -> Tensor:
        """[batch, head, query, d_head] -> [batch, query, d_model]."""
        output: Tensor = self.merge(context_vectors.transpose(1, 2).flatten(2))
        return output
