"""Hierarchical attention network, J5 (Yang et al. 2016): words make sentences, sentences make the document.

Fig. 2 of the paper, from the bottom: word encoder, word attention, sentence encoder, sentence attention, classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bundle.v1 import bundle_pb2
from limelight.v1 import attention_pb2, model_pb2
from models.attention import Attention
from models.attention.score import SelfAttentive
from models.blocks.fixed import Average
from models.blocks.recurrent import BiGru
from models.cards import describe
from models.cards.card import Card
from models.network import Answer, Network

TOKENIZER = "tokenizer.json"
UNKNOWN = 1
_CHARACTERS_A_WORD = 4


@dataclass(frozen=True, kw_only=True)
class HanConfig:
    """Sizes. The paper has d_embedding 200, d_gru 50 in each direction, d_attention 100.

    word_dropout: share of the words that training takes for unknown ones, so that those mean something.
    """

    vocabulary: int
    classes: int
    d_embedding: int = 48
    d_gru: int = 32
    d_attention: int = 64
    dropout: float = 0.3
    word_dropout: float = 0.0
    max_sentences: int = 64
    max_words: int = 64
    max_characters: int = 20_000


class Level(nn.Module):
    """One level of the hierarchy: encode a sequence, then pool it by attention (paper §2.2, eq. 1–7 or 8–10).

    h_t = BiGRU(x)_t;  u_t = tanh(W h_t + b);  a = softmax(uᵀ u_w);  s = Σ_t a_t h_t

    Shapes: features [batch, position, d_in], mask [batch, position] -> [batch, 2 d_gru], weights [batch, position].
    An empty sequence gives zeros.
    """

    def __init__(self, *, encoder: BiGru, attention: Attention) -> None:
        super().__init__()
        self.encoder = encoder
        self.attention = attention

    def forward(self, features: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        states = self.encoder(features, mask).unsqueeze(1)  # [batch, head = 1, position, 2 d_gru]
        pooled, weights = self.attention(None, states, mask=mask[:, None, None, :])
        return pooled[:, 0, 0], weights[:, 0, 0]


class HierarchicalAttentionNetwork(Network):
    """Document -> classes, with the weights of each word in its sentence and of each sentence.

    The two attentions can be given: `models.blocks.fixed` puts plain averages in their place.

    Shapes: token_ids int64 [batch, sentence, word], token_mask bool of the same -> logits [batch, class],
        maps `word` [batch, sentence, word], `sentence` [batch, sentence].
    """

    def __init__(
        self,
        config: HanConfig,
        *,
        word_attention: Attention | None = None,
        sentence_attention: Attention | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)  # torch's 1.0 makes loud noise of every rare word
        self.dropout = nn.Dropout(config.dropout)
        self.words = Level(
            encoder=BiGru(d_in=config.d_embedding, d_hidden=config.d_gru),
            attention=word_attention or self_attentive(config),
        )
        self.sentences = Level(
            encoder=BiGru(d_in=2 * config.d_gru, d_hidden=config.d_gru),
            attention=sentence_attention or self_attentive(config),
        )
        self.classify = nn.Linear(2 * config.d_gru, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        token_ids, token_mask = tensors["token_ids"], tensors["token_mask"]
        batch, sentence, word = token_ids.shape
        if self.training and self.config.word_dropout:
            dropped = token_mask & (torch.rand(token_ids.shape) < self.config.word_dropout)
            token_ids = token_ids.masked_fill(dropped, UNKNOWN)
        embedded = self.dropout(self.embedding(token_ids))
        # Every sentence of every document is a sequence of its own: [batch × sentence, word, …].
        vectors, word_weights = self.words(embedded.flatten(0, 1), token_mask.flatten(0, 1))
        vectors = self.dropout(vectors.reshape(batch, sentence, 2 * self.config.d_gru))
        document, sentence_weights = self.sentences(vectors, token_mask.any(-1))
        maps = {"word": word_weights.reshape(batch, sentence, word), "sentence": sentence_weights}
        return Answer({"logits": self.classify(self.dropout(document))}, maps)


def self_attentive(config: HanConfig) -> Attention:
    """The paper's attention: additive, its query a trained context vector."""
    return Attention(score=SelfAttentive(d_k=2 * config.d_gru, d_w=config.d_attention))


def han_mean(config: HanConfig) -> HierarchicalAttentionNetwork:
    """The hierarchical network with averages instead of its two attentions."""
    word, sentence = Attention(score=Average()), Attention(score=Average())
    return HierarchicalAttentionNetwork(config, word_attention=word, sentence_attention=sentence)


def card(config: HanConfig, *, labels: Sequence[str], tokenizer: str) -> Card:
    """Describe the network; labels: names of the classes; tokenizer: text of its tokenizer file."""
    sizes = {"sentence": config.max_sentences, "word": config.max_words}
    document = model_pb2.InputDescription(
        name="document",
        kind=model_pb2.INPUT_KIND_DOCUMENT,
        summary="A text of one or more sentences.",
        tensors=[describe.token_tensor("token_ids", "token_mask", config.vocabulary, sizes)],
    )
    maps = [
        model_pb2.MapDescription(
            name="word",
            stack="word",
            kind=attention_pb2.MAP_KIND_POOL,
            normalised=True,
            heads=1,
            query_labels="sentences",
            key_labels="words",
            form=model_pb2.MAP_FORM_EDGES,
            summary="How much each word counts in its sentence.",
        ),
        model_pb2.MapDescription(
            name="sentence",
            stack="sentence",
            kind=attention_pb2.MAP_KIND_POOL,
            normalised=True,
            heads=1,
            query_labels="document",
            key_labels="sentences",
            form=model_pb2.MAP_FORM_DENSE,
            summary="How much each sentence counts in the document.",
        ),
    ]
    label_sets = [
        model_pb2.LabelSetDescription(
            name="sentences",
            kind=attention_pb2.LABEL_KIND_SENTENCES,
            input="document",
            tensor="token_ids",
            dimension="sentence",
        ),
        model_pb2.LabelSetDescription(
            name="words",
            kind=attention_pb2.LABEL_KIND_TOKENS,
            input="document",
            tensor="token_ids",
            dimension="word",
            parent="sentences",
        ),
        describe.one("document"),
    ]
    description = model_pb2.ModelDescription(
        name="han",
        title="Hierarchical attention network",
        summary="Classifies a document by the words that matter in each sentence and the sentences that matter in it.",
        task=model_pb2.TASK_CLASSIFICATION,
        inputs=[document],
        outputs=[describe.logits(config.classes)],
        result=describe.class_result(labels),
        maps=maps,
        label_sets=label_sets,
        limits=model_pb2.Limits(max_characters=config.max_characters),
        taxonomy=describe.taxonomy(
            "singular",
            "hierarchical",
            "single-representational",
            "additive",
            "global",
            "single-dimensional",
            "self-attentive",
            "singular",
        ),
        citation=model_pb2.Citation(
            authors=["Yang", "Yang", "Dyer", "He", "Smola", "Hovy"],
            title="Hierarchical Attention Networks for Document Classification",
            year=2016,
            venue="NAACL",
        ),
    )
    # A piece of text this long has rarely more words than the model takes: it is split where it would be refused.
    longest = bundle_pb2.SplitSentences(max_characters=_CHARACTERS_A_WORD * config.max_words)
    split = bundle_pb2.PreprocessingStep(split_sentences=longest)
    batch, query, key = bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY
    return Card(
        description=description,
        preprocessing=(
            bundle_pb2.Preprocessing(input="document", steps=[split, describe.tokenize(TOKENIZER, "token_ids")]),
        ),
        map_axes={"word": (batch, query, key), "sentence": (batch, key)},
        files={TOKENIZER: tokenizer},
    )
