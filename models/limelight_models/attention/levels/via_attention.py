"""Attention via attention (E2): words say which characters matter."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.flat import Contexts, attend, contexts_for, over_keys
from limelight_models.attention.weights import Weights, weights_of


class ViaWeights(NamedTuple):
    """Weights of both levels: word [batch, head, query, word], character [batch, head, query, character]."""

    word: Tensor
    character: Tensor


class AttentionViaAttention(nn.Module):
    """Top-down attention over two levels (Zhao & Zhang 2018, §3.2; survey BF §3.1.2, Fig. 7).

    c^w = attention of q over F^w;  c^c = attention of [q; c^w] over F^c;  c = [c^w; c^c]

    Shapes: query [batch, query, d_q], words [batch, word, d_w], characters [batch, character, d_c], masks
        [batch, position]; `over_characters` takes queries of d_q + the size of c^w
        -> context vectors [batch, query, sum of both sizes], ViaWeights.
    """

    def __init__(self, *, over_words: nn.Module, over_characters: nn.Module) -> None:
        super().__init__()
        self.over_words, self.over_characters = over_words, over_characters

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of words, then those of characters."""
        return weights_of(self.over_words, self.over_characters)

    def forward(
        self,
        query: Tensor,
        words: Tensor,
        characters: Tensor,
        word_mask: Tensor | None = None,
        character_mask: Tensor | None = None,
        contexts: Contexts = None,
    ) -> tuple[Tensor, ViaWeights]:
        word_context, character_context = contexts_for(contexts, ViaWeights._fields)
        of_words, word_weights = attend(self.over_words, query, words, None, over_keys(word_mask), word_context)
        question = torch.cat([query, of_words], -1)
        of_characters, character_weights = attend(
            self.over_characters, question, characters, None, over_keys(character_mask), character_context
        )
        return torch.cat([of_words, of_characters], -1), ViaWeights(word_weights, character_weights)
