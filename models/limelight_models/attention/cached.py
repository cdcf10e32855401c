"""Self-attention of a sequence that is put out token by token: the keys and values of its tokens are kept."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention.context import Context
from limelight_models.attention.core import Attention
from limelight_models.attention.masks import Mask, causal
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.weights import AroundAttention


@dataclass(frozen=True)
class KVCache:
    """Keys and values of the tokens so far, both [batch, head, token, d_model / heads]."""

    keys: Tensor
    values: Tensor


class CausalAttention(AroundAttention, nn.Module):
    """Each token attends to itself and to those before it (Vaswani et al. 2017, §3.2.3).

    looks: which of them, by places alone. For a score that looks at each key by itself, or at none, and weights that
    sum values.

    Shapes: features [batch, token, d_model] -> output of the same shape, weights [batch, head, token, token].
    """

    attention: MultiHead
    cached: type[Any] = KVCache  # what is kept

    def __init__(self, attention: MultiHead, looks: Mask = causal) -> None:
        super().__init__()
        self.attention, self.looks = attention, looks

    def project(self, features: Tensor, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of tokens at these positions, INT64 [token] or [batch, token]."""
        return self.attention.project(features, features, None)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Any]:
        """All tokens of a sequence at once, and what is kept of them. Padding may stand behind a sequence."""
        places = torch.arange(features.shape[1], device=features.device)
        queries, keys, values = self.project(features, places)
        mask = self.looks(places.unsqueeze(-1), places)
        context, weights = self.attention.attention(queries, keys, values, mask)
        return self.attention.join(context), weights, KVCache(keys, values)

    def step(self, features: Tensor, kept: Any, position: Tensor) -> tuple[Tensor, Tensor, Any]:
        """One token, from what is kept of those before it.

        The cache is neither copied nor changed: the new key's score takes its place among the scores, and its value is
        added by itself. Places of the cache from `position` on say nothing.

        Shapes: features [batch, 1, d_model], kept [batch, head, place, d_model / heads], position INT64 [batch], below
            the number of places -> output [batch, 1, d_model], weights [batch, head, 1, place], the new token's own
            [batch, head, 1, d_model / heads].
        """
        queries, key, value = self.project(features, position.unsqueeze(-1))
        context, weights = self.looked(queries, key, value, kept, position)
        return self.attention.join(context), weights, KVCache(key, value)

    def looked(
        self, queries: Tensor, key: Tensor, value: Tensor, kept: KVCache, position: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Context vectors of the new token, and its weights [batch, head, 1, place]; heads of keys may be one."""
        inner = self.attention.attention
        assert isinstance(inner, Attention)
        places = torch.arange(kept.keys.shape[2], device=queries.device)
        position = position[:, None, None, None]
        new, mask = places == position, self.looks(position, places)
        places_of_query = position[:, :, 0]  # [batch, head, query]
        scores = inner.score(queries, kept.keys, Context(query=queries, key=kept.keys, query_positions=places_of_query))
        if not inner.score.key_free:
            own = Context(query=queries, key=key, query_positions=places_of_query, key_positions=places_of_query)
            scores = torch.where(new, inner.score(queries, key, own), scores)
        aligned = inner.align(scores, mask, Context(query=queries, key=kept.keys, mask=mask))
        weights, factor = inner.marked(aligned, mask)
        before, at_new = weights * ~new, (weights * new).sum(-1, keepdim=True)
        context = inner.combine(before, kept.values, Context()) + inner.combine(at_new, value, Context())
        return context if factor is None else context * factor, weights


class CrossAttention(AroundAttention, nn.Module):
    """Tokens that are put out attend to a memory, which is projected once (Vaswani et al. 2017, §3.2.3).

    Shapes: features [batch, token, d_model], kept of `read`, mask bool [batch, key]
        -> output as features, weights [batch, head, token, key].
    """

    attention: MultiHead

    def __init__(self, attention: MultiHead) -> None:
        super().__init__()
        self.attention = attention

    def read(self, memory: Tensor) -> KVCache:
        """Keys and values of a memory [batch, key, d_model]."""
        heads = self.attention
        return KVCache(heads.split(heads.key_map(memory)), heads.split(heads.value_map(memory)))

    def forward(self, features: Tensor, kept: KVCache, mask: Tensor) -> tuple[Tensor, Tensor]:
        heads = self.attention
        queries = heads.split(heads.query_map(features))
        context, weights = heads.attention(queries, kept.keys, kept.values, mask[:, None, None, :])
        return heads.join(context), weights
