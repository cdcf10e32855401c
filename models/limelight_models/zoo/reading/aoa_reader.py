"""Attention-over-attention reader, K11 (Cui, Z. Chen, Wei, Wang, Liu & Hu 2017): the word that a sentence lacks.

Fig. 1 of the paper, from the bottom: words, which sentence and document share; a bidirectional GRU for each; how well
their words match; an attention to the document for each word of the sentence; an attention to the sentence that says
how much each of those counts; the sum of what the places of a word get. Not here: the paper's second step, which orders
the best candidates by language models (§4).
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.alignment import Align
from limelight_models.attention.features import AttentionOverAttention, Pair, Parallel
from limelight_models.attention.features.aggregate import Aggregate, Side
from limelight_models.attention.features.perceptron import both_ways
from limelight_models.attention.flat import share
from limelight_models.attention.score import Dot
from limelight_models.blocks.recurrent import BiGru
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.data import cloze, rows
from limelight_models.network import Answer
from limelight_models.recipes import Blueprint, Card, Recipe, preset, tiny
from limelight_models.tasks.classify import Classify
from limelight_models.zoo.reading.summed import ReaderConfig, SummedReader, of_answers


class AoaReaderConfig(ReaderConfig):
    """Sizes. The paper has d_embedding 384 and d_hidden 256 in each direction for news.

    over_attention: whether a second attention says how much each word of the sentence counts; without, all count the
    same (as Cui et al. 2016 average).
    """

    over_attention: bool = True
    d_embedding: int = 64
    d_hidden: int = 64
    dropout: float = 0.1


class AverageAttention(Aggregate):
    """The average of the attentions to the second input (Cui et al. 2016), whatever the words of the first.

    M₁ = align of A along the second input;  a¹_i = 1/n;  a² = M₁ᵀ a¹

    Shapes: affinity [batch, head, first, second] -> Pair of weights [batch, head, 1, position].
    """

    has_scores = False

    def forward(self, affinity: Tensor, first: Side, second: Side, align: Align) -> Pair:
        of_first, _ = both_ways(affinity, first, second, align)
        everywhere = torch.ones_like(of_first[..., :1], dtype=torch.bool).transpose(-2, -1)
        weights = share(everywhere if first.mask is None else everywhere & first.mask, of_first)
        return Pair(weights, weights @ of_first)


class AoaReader(SummedReader):
    """A sentence that lacks a word, and its document -> the word, one of the classes, where it stands in the document.

    M(i, j) = h_doc(i)ᵀ h_query(j);  α(j) = softmax of M(·, j);  β(i) = softmax of M(i, ·)
    β = 1/n Σ_i β(i);  s = αᵀ β;  P(w) = Σ_{i: D_i = w} s_i

    As §3 of the paper has it.

    Shapes: first_ids int64 [batch, first], the sentence, second_ids [batch, second], the document, masks bool of the
        same -> logits [batch, class], maps `sentence` β [batch, 1, 1, first], `document` s [batch, 1, 1, second],
        `affinity` Mᵀ [batch, 1, first, second].
    """

    deciding = ("read_sentence", "read_document")

    def __init__(self, config: AoaReaderConfig) -> None:
        super().__init__(config)
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        self.dropout = nn.Dropout(config.dropout)
        self.read_sentence, self.read_document = (
            BiGru(d_in=config.d_embedding, d_hidden=config.d_hidden) for _ in range(2)
        )
        aggregate = AttentionOverAttention() if config.over_attention else AverageAttention()
        self.match = Parallel(attention=Attention(score=Dot()), aggregate=aggregate)

    def forward(self, **tensors: Tensor) -> Answer:
        lacking, told, ids = tensors["first_mask"], tensors["second_mask"], tensors["second_ids"]
        sentence = self.read_sentence(self.dropout(self.words(tensors["first_ids"])), lacking)
        document = self.read_document(self.dropout(self.words(ids)), told)
        _, weights = self.match(sentence, document, lacking, told)
        maps = {"sentence": weights.first, "document": weights.second, "affinity": weights.affinity}
        return Answer({"logits": self.logits(weights.second, ids)}, maps)


def card(network: AoaReader, blueprint: Blueprint[AoaReaderConfig]) -> Card:
    """Describe the reader."""
    pair = blueprint.pair(f"A sentence with `{cloze.BLANK}` for one of its words, and a document that has the word.")
    maps = {
        "sentence": Attends(one("sentence"), pair.first, "How much each word of the sentence counts.", kind="co"),
        "document": Attends(
            one("answer"),
            pair.second,
            "The weight of each word of the document; those of a word are summed.",
            kind="co",
        ),
        "affinity": Attends(
            pair.first, pair.second, "How well each word of the sentence matches each of the document.", kind="co"
        ),
    }
    return blueprint.card(
        network,
        title="Attention-over-attention reader",
        summary="Finds the word that a sentence lacks in a document, by the summed weight of the word's places.",
        inputs=[pair],
        maps=maps_of(network.match, maps),
        taxonomy="parallel co-attention, multiplicative, specialised",
        citation="Cui, Chen, Wei, Wang, Liu, Hu (2017): Attention-over-Attention Neural Networks for Reading "
        "Comprehension. ACL",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, dropout=0.0),
    "demo": preset(3, 32, 4e-3, patience=2, clip=5.0, vocabulary=3000, d_embedding=32, d_hidden=32, dropout=0.2),
    "full": preset(8, 32, 2e-3, patience=2, clip=5.0, vocabulary=20_000),
    # The sizes for CNN's articles.
    "paper": preset(10, 32, 1e-3, weight_decay=1e-4, patience=2, clip=5.0, vocabulary=120_000).sized(
        d_embedding=384, d_hidden=256
    ),
}

AOA_READER = Recipe(
    AoaReaderConfig,
    AoaReader,
    card,
    of_answers(AoaReaderConfig),
    PRESETS,
    task=Classify(),
    data=rows.TEXT_PAIRS,
    builtin=cloze.dataset,
)
# What it extends: the attentions of all words of the sentence count the same.
AOA_READER_AVERAGE = AOA_READER.changed(over_attention=False)
