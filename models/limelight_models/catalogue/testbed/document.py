"""A document, attention on its levels, a class: movie reviews in miniature."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from limelight_models.attention.levels import Hierarchical
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.weights import Weights, weights_of
from limelight_models.cards.card import Card
from limelight_models.cards.inputs import DocumentInput, Tokenizer
from limelight_models.cards.labels import one
from limelight_models.cards.maps import Map
from limelight_models.catalogue.testbed.classifier import SmallModel
from limelight_models.catalogue.testbed.taxonomy import classifier
from limelight_models.catalogue.testbed.text import Features, Texts
from limelight_models.network import Answer
from limelight_models.tasks.heads import Scores

DOCUMENT = one("document")


def document_input(texts: Texts) -> DocumentInput:
    """The document."""
    return DocumentInput(
        tokenizer=Tokenizer(text=texts.tokenizer),
        max_sentences=texts.max_sentences,
        max_words=texts.max_tokens,
        max_characters=400,
    )


def word_map(texts: Texts, weights: Weights, *, part: bool = False) -> Map:
    """Words of each sentence. part: of one distribution over the whole document."""
    document = document_input(texts)
    return Map(
        weights=weights,
        kind="pool",
        queries=document.sentences,
        keys=document.words,
        features=texts.d,
        nested=True,
        part=part,
        summary="How much each word counts in the document." if part else "How much each word counts in its sentence.",
    )


def sentence_map(texts: Texts, weights: Weights) -> Map:
    """Sentences of the document."""
    return Map(
        weights=weights,
        kind="pool",
        queries=DOCUMENT,
        keys=document_input(texts).sentences,
        features=texts.d,
        summary="How much each sentence counts in the document.",
    )


class DocumentModel(SmallModel):
    """A classifier of documents.

    Shapes: token_ids int64 [batch, sentence, word], token_mask bool of the same
        -> logits [batch, class], maps `word` [batch, head, sentence, word] and, with levels, `sentence`.
    """

    def __init__(self, texts: Texts, maps: Mapping[str, Map], *, d_in: int) -> None:
        super().__init__()
        self.maps = maps
        self.features = Features(texts)
        self.classify = Scores(d_in=d_in, d_out=len(texts.labels), dropout=texts.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask = tensors["token_ids"], tensors["token_mask"]
        # Every sentence of every document is a sequence of its own: [batch × sentence, word].
        words = self.features(ids.flatten(0, 1), mask.flatten(0, 1)).unflatten(0, ids.shape[:2])
        vector, maps = self.read(words, mask)
        return Answer({"logits": self.classify(vector)}, maps)

    def read(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        """From words [batch, sentence, word, d] to one vector [batch, d_in], and the maps."""
        raise NotImplementedError


class HierarchicalModel(DocumentModel):
    """Bottom-up (E3): words make sentences, sentences make the document."""

    def __init__(self, texts: Texts, module: Hierarchical) -> None:
        word, sentence = weights_of(module)
        maps = {"word": word_map(texts, word), "sentence": sentence_map(texts, sentence)}
        super().__init__(texts, maps, d_in=texts.d)
        self.module = module

    def read(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        vector, weights = self.module(words, mask)
        return vector, weights._asdict()


class SentenceEncoder(nn.Module):
    """A sentence with the one before and the one after it, by a convolution over three: h = s + tanh(conv₃(s)).

    Shapes: sentences [batch, sentence, d], mask [batch, sentence] -> [batch, sentence, d], zeros at padding.
    """

    def __init__(self, *, d: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d, d, 3, padding=1)

    def forward(self, sentences: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1)
        neighbours = self.convolution((sentences * real).transpose(1, 2)).transpose(1, 2)
        return (sentences + neighbours.tanh()) * real


class FlatModel(DocumentModel):
    """One level (E1): the document as one sequence of words, to compare levels with."""

    def __init__(self, texts: Texts, module: SelfAttentivePool) -> None:
        (word,) = weights_of(module)
        super().__init__(texts, {"word": word_map(texts, word, part=True)}, d_in=texts.d)
        self.module = module

    def read(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        vector, weights = self.module(words.flatten(1, 2), None, mask.flatten(1, 2))
        return vector, {"word": unflatten(weights, mask)}


def unflatten(weights: Tensor, mask: Tensor) -> Tensor:
    """Weights of a document's words by sentence: [batch, head, 1, sentence · word] -> [batch, head, sentence, word]."""
    return weights.squeeze(2).unflatten(-1, mask.shape[1:])


def card(texts: Texts, maps: Mapping[str, Map], **more: Any) -> Card:
    """Describe the model. more: as `classifier` takes it."""
    return classifier("documents", texts, [document_input(texts)], maps, **more)
