"""A document, attention on its levels, a class: movie reviews in miniature."""

from collections.abc import Mapping

from torch import Tensor, nn

from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2
from models.attention.levels import Hierarchical
from models.attention.queries.pool import SelfAttentivePool
from models.cards import describe
from models.cards.card import Card
from models.network import Answer
from models.testbed.classifier import SmallModel
from models.testbed.layout import Layout, axes, fixed_sets, map_description
from models.testbed.text import MAX_CHARACTERS, TOKENIZER, Classify, Features, Texts, tokens

DOCUMENT, SENTENCES, WORDS = "document", "sentences", "words"
WORD = Layout(queries=SENTENCES, keys=WORDS, edges=True)
WORD_OF_DOCUMENT = Layout(queries=SENTENCES, keys=WORDS, edges=True, normalised=False)  # 1 in all, not a sentence
SENTENCE = Layout(queries=DOCUMENT, keys=SENTENCES)


class DocumentModel(SmallModel):
    """A classifier of documents.

    Shapes: token_ids int64 [batch, sentence, word], token_mask bool of the same
        -> logits [batch, class], maps `word` [batch, head, sentence, word] and, with levels, `sentence`.
    """

    def __init__(self, texts: Texts, layouts: Mapping[str, Layout], *, d_in: int) -> None:
        super().__init__()
        self.layouts = layouts
        self.features = Features(texts)
        self.classify = Classify(texts, d_in=d_in)

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
        super().__init__(texts, {"word": WORD, "sentence": SENTENCE}, d_in=texts.d)
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
        super().__init__(texts, {"word": WORD_OF_DOCUMENT}, d_in=texts.d)
        self.module = module

    def read(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Mapping[str, Tensor]]:
        vector, weights = self.module(words.flatten(1, 2), None, mask.flatten(1, 2))
        return vector, {"word": unflatten(weights, mask)}


def unflatten(weights: Tensor, mask: Tensor) -> Tensor:
    """Weights of a document's words by sentence: [batch, head, 1, sentence · word] -> [batch, head, sentence, word]."""
    return weights.squeeze(2).unflatten(-1, mask.shape[1:])


def card(texts: Texts, layouts: Mapping[str, Layout], *, title: str, taxonomy: model_pb2.Taxonomy) -> Card:
    """Describe the model."""
    sizes = {"sentence": texts.max_sentences, "word": texts.max_tokens}
    document = model_pb2.InputDescription(
        name=DOCUMENT,
        kind=model_pb2.INPUT_KIND_DOCUMENT,
        summary="A text of one or more sentences.",
        tensors=[describe.token_tensor("token_ids", "token_mask", texts.vocabulary, sizes)],
    )
    sentences = model_pb2.LabelSetDescription(
        name=SENTENCES,
        kind=attention_pb2.LABEL_KIND_SENTENCES,
        input=DOCUMENT,
        tensor="token_ids",
        dimension="sentence",
    )
    words = tokens(WORDS, input=DOCUMENT, tensor="token_ids", dimension="word", parent=SENTENCES)
    description = model_pb2.ModelDescription(
        title=title,
        summary=f"A small classifier of documents whose attention is {title}.",
        task=model_pb2.TASK_CLASSIFICATION,
        inputs=[document],
        outputs=[describe.logits(len(texts.labels))],
        result=describe.class_result(texts.labels),
        maps=[
            map_description(name, layout, summary=f"Weights of {title} over the {layout.keys}.")
            for name, layout in layouts.items()
        ],
        label_sets=[sentences, words, *fixed_sets(layouts, {SENTENCES, WORDS})],
        limits=model_pb2.Limits(max_characters=MAX_CHARACTERS),
        taxonomy=taxonomy,
    )
    split = bundle_pb2.PreprocessingStep(split_sentences=bundle_pb2.SplitSentences(max_characters=400))
    return Card(
        description=description,
        preprocessing=(
            bundle_pb2.Preprocessing(input=DOCUMENT, steps=[split, describe.tokenize(TOKENIZER, "token_ids")]),
        ),
        map_axes={name: axes(layout) for name, layout in layouts.items()},
        files={TOKENIZER: texts.tokenizer},
    )
