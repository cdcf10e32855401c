"""Hierarchical attention (E3): words make sentences, sentences make the document."""

from typing import NamedTuple

from torch import Tensor, nn

from limelight_models.attention.errors import require_axes
from limelight_models.attention.flat import Contexts, contexts_for, rows_of
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.weights import Weights, weights_of


class HierarchicalWeights(NamedTuple):
    """Weights of both levels: word [batch, head, sentence, word], sentence [batch, head, 1, sentence]."""

    word: Tensor
    sentence: Tensor


class Hierarchical(nn.Module):
    """Bottom-up attention over two levels (Yang et al. 2016, eq. 5–10; survey BF §3.1.2, Fig. 8).

    c_s = Σ_w a_{s,w} f_{s,w} for each sentence s;  c = Σ_s a_s encode(c)_s

    Documents are ragged: a sentence without words gets no weight, its vector and its row of word weights are zeros.
    `encode` is the sentence encoder, called with sentences [batch, sentence, d] and their mask [batch, sentence].

    Shapes: words [batch, sentence, word, feature], mask [batch, sentence, word]
        -> document vector [batch, d], HierarchicalWeights (with an axis `feature` where multi-dimensional).
    """

    def __init__(
        self, *, word: SelfAttentivePool, sentence: SelfAttentivePool, encode: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.word, self.sentence, self.encode = word, sentence, encode

    @property
    def makes(self) -> tuple[Weights, ...]:
        """Those of words, then those of sentences."""
        return weights_of(self.word, self.sentence)

    def forward(
        self, words: Tensor, mask: Tensor | None = None, contexts: Contexts = None
    ) -> tuple[Tensor, HierarchicalWeights]:
        require_axes(words, "words", "batch, sentence, word, feature")
        if mask is None:
            mask = words.new_ones(1, 1, 1).bool()
        require_axes(mask, "mask", "batch, sentence, word")
        mask = mask.expand(words.shape[:-1])  # sentences are counted, and words laid out side by side
        word_context, sentence_context = contexts_for(contexts, HierarchicalWeights._fields)
        sentences, word_weights = self.word(words.flatten(0, 1), None, mask.flatten(0, 1), word_context)
        sentences, present = sentences.unflatten(0, words.shape[:2]), mask.any(-1)
        if self.encode is not None:
            sentences = self.encode(sentences, present)
        document, sentence_weights = self.sentence(sentences, None, present, sentence_context)
        return document, HierarchicalWeights(rows_of(word_weights, words.shape[:2]), sentence_weights)
