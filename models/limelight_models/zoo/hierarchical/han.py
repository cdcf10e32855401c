"""Hierarchical attention network, J5 (Yang et al. 2016): words make sentences, sentences make the document.

Fig. 2 of the paper, from the bottom: word encoder, word attention, sentence encoder, sentence attention, classes.
"""

from collections.abc import Callable
from functools import partial

import torch
from tokenizers import Tokenizer as Loaded
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import rows_of
from limelight_models.attention.score import Score, SelfAttentive
from limelight_models.blocks.fixed import Average
from limelight_models.blocks.recurrent import BiGru
from limelight_models.cards.language import Attends, DocumentInput, LinesInput, maps_of, one
from limelight_models.data import docstrings, embeddings, rows, slips, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, of_texts, preset, tiny
from limelight_models.tasks.heads import Scores

UNKNOWN = 1
_SPREAD = 0.1  # of embeddings to begin with: torch's 1.0 makes loud noise of every rare word


class HanConfig(TextSizes):
    """Sizes. The paper has d_embedding 200, d_gru 50 in each direction, d_attention 100.

    word_dropout: share of the words that training takes for unknown ones, so that those mean something. counted:
    whether embeddings begin as counted from what words stand beside, as the paper's begin as word2vec's (§3.3). lines:
    whether the sentences of a document are its lines.
    """

    d_embedding: int = 48
    d_gru: int = 32
    d_attention: int = 64
    dropout: float = 0.3
    word_dropout: float = 0.0
    counted: bool = False
    max_sentences: int = 64
    max_words: int = 64
    lines: bool = False


class Level(nn.Module):
    """One level of the hierarchy: encode a sequence, then pool it by attention (paper §2.2, eq. 1–7 or 8–10).

    h_t = BiGRU(x)_t;  u_t = tanh(W h_t + b);  a = softmax(uᵀ u_w);  s = Σ_t a_t h_t

    Shapes: features [batch, position, d_in], mask [batch, position]
        -> [batch, 2 d_gru], weights [batch, head = 1, 1, position]. An empty sequence gives zeros.
    """

    def __init__(self, *, encoder: BiGru, attention: Attention) -> None:
        super().__init__()
        self.encoder = encoder
        self.attention = attention

    def forward(self, features: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        states = self.encoder(features, mask).unsqueeze(1)  # [batch, head = 1, position, 2 d_gru]
        pooled, weights = self.attention(None, states, mask=mask[:, None, None, :])
        return pooled[:, 0, 0], weights


class HierarchicalAttentionNetwork(Network):
    """Document -> classes, with the weights of each word in its sentence and of each sentence.

    The score of the two attentions can be given: `han-mean` puts plain averages in their place.

    Shapes: token_ids int64 [batch, sentence, word], token_mask bool of the same -> logits [batch, class],
        maps `word` [batch, 1, sentence, word], `sentence` [batch, 1, 1, sentence].
    """

    def __init__(self, config: HanConfig, *, score: Callable[[HanConfig], Score] | None = None) -> None:
        super().__init__()
        self.config, d_gru = config, config.d_gru
        make = score or self_attentive
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=_SPREAD)
        self.dropout = nn.Dropout(config.dropout)
        self.words = Level(
            encoder=BiGru(d_in=config.d_embedding, d_hidden=d_gru), attention=Attention(score=make(config))
        )
        self.sentences = Level(encoder=BiGru(d_in=2 * d_gru, d_hidden=d_gru), attention=Attention(score=make(config)))
        self.classify = Scores(d_in=2 * d_gru, d_out=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        token_ids, token_mask = tensors["token_ids"], tensors["token_mask"]
        batch, sentence, _ = token_ids.shape
        if self.training and self.config.word_dropout:
            dropped = token_mask & (torch.rand(token_ids.shape, device=token_ids.device) < self.config.word_dropout)
            token_ids = token_ids.masked_fill(dropped, UNKNOWN)
        embedded = self.dropout(self.embedding(token_ids))
        # Every sentence of every document is a sequence of its own: [batch × sentence, word, …].
        vectors, word_weights = self.words(embedded.flatten(0, 1), token_mask.flatten(0, 1))
        vectors = self.dropout(vectors.reshape(batch, sentence, 2 * self.config.d_gru))
        document, sentence_weights = self.sentences(vectors, token_mask.any(-1))
        maps = {"word": rows_of(word_weights, (batch, sentence)), "sentence": sentence_weights}
        return Answer({"logits": self.classify(document)}, maps)


def self_attentive(config: HanConfig) -> Score:
    """The paper's score: additive, its query a trained context vector."""
    return SelfAttentive(d_k=2 * config.d_gru, d_w=config.d_attention)


def start(network: HierarchicalAttentionNetwork, dataset: Dataset, blueprint: Blueprint[HanConfig]) -> None:
    """Count the embeddings to begin with, where that is wanted, from the words of the training part."""
    config = network.config
    if config.counted:
        texts = tokenizers.texts_of([example.instance["document"] for example in dataset.train])
        ids = (each.ids for each in Loaded.from_str(blueprint.files["tokenizer.json"]).encode_batch(texts))
        counted = embeddings.of_neighbours(ids, vocabulary=config.vocabulary, d=config.d_embedding)
        with torch.no_grad():
            network.embedding.weight.copy_(_SPREAD * counted)


def card(network: HierarchicalAttentionNetwork, blueprint: Blueprint[HanConfig]) -> Card:
    """Describe the network."""
    config = network.config
    document = (LinesInput if config.lines else DocumentInput)(
        tokenizer=blueprint.tokenizer(), max_sentences=config.max_sentences, max_words=config.max_words
    )
    about = "How much each word counts in its sentence."
    word = Attends(document.sentences, document.words, about, kind="pool", nested=True)
    sentence = Attends(one("document"), document.sentences, "How much each sentence counts in the document.")
    return blueprint.card(
        network,
        title="Hierarchical attention network",
        summary="Classifies a document by the words that matter in each sentence and the sentences that matter in it.",
        inputs=[document],
        maps=maps_of(network.words.attention, {"word": word})
        | maps_of(network.sentences.attention, {"sentence": sentence}),
        taxonomy="hierarchical, additive, self-attentive",
        citation="Yang, Yang, Dyer, He, Smola, Hovy (2016): Hierarchical Attention Networks for Document "
        "Classification. NAACL",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_gru=6, d_attention=8, dropout=0.1),
    "demo": preset(7, 16, 4e-3, patience=3, vocabulary=3000, d_embedding=32, dropout=0.5, word_dropout=0.25),
    "full": preset(8, 16, 3e-3, patience=3, vocabulary=8000).sized(
        dropout=0.5, word_dropout=0.1, max_sentences=30, max_words=30
    ),
    # §3.3, with Adam in the place of momentum: the paper's rate is the best of a grid.
    "paper": preset(10, 64, 1e-3, patience=3, vocabulary=50_000).sized(
        d_embedding=200, d_gru=50, d_attention=100, dropout=0.0, counted=True
    ),
}

HAN = classifying_texts(
    HanConfig, HierarchicalAttentionNetwork, card, PRESETS, builtin=docstrings.dataset, data=rows.DOCUMENTS, start=start
)
# Program code: lines in the place of sentences, pieces in that of words, so that what is misspelt can be read.
HAN_CODE = HAN.but(
    builtin=slips.dataset,
    # Pieces of words, with small and capital letters and every mark.
    prepare=of_texts(partial(HanConfig, lines=True), partial(tokenizers.pieces, output=False)),
    presets={
        "tiny": tiny(vocabulary=50, d_embedding=8, d_gru=6, d_attention=8),
        "demo": preset(8, 16, 4e-3, vocabulary=800, d_embedding=32, d_attention=32, dropout=0.1),
        "full": preset(10, 16, 2e-3, patience=3, vocabulary=2000).sized(
            d_embedding=64, d_gru=64, dropout=0.2, max_sentences=100
        ),
    },
)
# What attention is compared with: plain averages in the place of both.
HAN_MEAN = HAN.with_parts(score=lambda config: Average())
# Taught where the slip is.
HAN_CODE_SUPERVISED = HAN_CODE.supervised(0.5)
