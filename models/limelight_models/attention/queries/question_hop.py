"""Multi-hop attention whose query transform is itself an attention, over the question (H5)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.errors import CombinationError
from limelight_models.attention.flat import Contexts, attend, average, contexts_for, over_keys
from limelight_models.attention.weights import Weights, weights_of

ASKS = ("query", "context", "both")


class QuestionHopWeights(NamedTuple):
    """One row a hop: question [batch, head, hop, question], key [batch, head, hop, key]."""

    question: Tensor
    key: Tensor


class QuestionHops(nn.Module):
    """Each hop rereads the question, then the features (Tran & Niederée 2018, §3.2; survey BF eq. 41–42).

    q⁽⁰⁾ = average of the question, c⁽⁰⁾ = average of the features
    q⁽ˢ⁺¹⁾ = attention of x⁽ˢ⁾ over the question;  c⁽ˢ⁺¹⁾ = attention of [q⁽ˢ⁺¹⁾; c⁽ˢ⁾] over the features
    x⁽ˢ⁾ = q⁽ˢ⁾, c⁽ˢ⁾ or [q⁽ˢ⁾; c⁽ˢ⁾], as `asks` says: "query" (the paper's), "context" or "both" (survey BF §3.3.2)

    `steps=[(over_question, over_features)] * 3` shares weights between hops.

    Shapes: question [batch, question, d_u], features [batch, key, d_f], masks [batch, question] and [batch, key]
        -> context vector [batch, d_v], QuestionHopWeights.
    Raises: CombinationError at construction where there is no step; ValueError for another `asks`.
    """

    def __init__(self, *, steps: Sequence[tuple[nn.Module, nn.Module]], asks: str = "query") -> None:
        super().__init__()
        if not steps:
            raise CombinationError("multi-hop attention needs at least one step")
        if asks not in ASKS:
            raise ValueError(f"asks must be one of {', '.join(ASKS)}; it is {asks!r}")
        self.asks = asks
        self.over_question = nn.ModuleList(step[0] for step in steps)
        self.over_features = nn.ModuleList(step[1] for step in steps)

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of the question, then those of the features."""
        return weights_of(self.over_question[0], self.over_features[0])

    def forward(
        self,
        question: Tensor,
        features: Tensor,
        question_mask: Tensor | None = None,
        mask: Tensor | None = None,
        contexts: Contexts = None,
    ) -> tuple[Tensor, QuestionHopWeights]:
        question_context, key_context = contexts_for(contexts, QuestionHopWeights._fields)
        query, found = average(question, question_mask), average(features, mask)
        question_maps, key_maps = [], []
        for ask, look in zip(self.over_question, self.over_features, strict=True):
            asking = {"query": [query], "context": [found], "both": [query, found]}[self.asks]
            query, weights = attend(
                ask, torch.cat(asking, -1), question, None, over_keys(question_mask), question_context
            )
            question_maps.append(weights)
            found, weights = attend(look, torch.cat([query, found], -1), features, None, over_keys(mask), key_context)
            key_maps.append(weights)
        return found.flatten(1), QuestionHopWeights(torch.cat(question_maps, 2), torch.cat(key_maps, 2))
