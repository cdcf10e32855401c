"""Attentive reader, R14 (Hermann, Kočiský, Grefenstette, Espeholt, Kay, Suleyman & Blunsom 2015): a text, as asked.

Figure 1a of the paper: a question and a document are read both ways; the question looks at the document, and what it
finds tells the answer with it. As of all words of a vocabulary in the paper, the answer is one of the classes here. The
readers are GRUs, and not LSTMs.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.score import Additive
from limelight_models.blocks.recurrent import BiGru, pick
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.data import cloze, rows
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny


class AttentiveReaderConfig(TextSizes):
    """Sizes."""

    d_embedding: int = 64
    d_hidden: int = 64
    d_w: int = 64
    dropout: float = 0.1
    max_tokens: int = 1000
    max_characters: int = 20_000


class AttentiveReader(Network):
    """A question and a document -> classes.

    u = the ends of →BiGRU(question) and ←BiGRU(question);  m(t) = tanh(W_ym y_d(t) + W_um u), s = softmax(w_msᵀ m)
    r = y_d s;  g = tanh(W_rg r + W_ug u);  y = W g + b (§3.2)

    Shapes: first_ids int64 [batch, first], the question, second_ids [batch, second], the document, masks bool of the
        same -> logits [batch, class], map `document` s [batch, 1, 1, second].
    """

    def __init__(self, config: AttentiveReaderConfig) -> None:
        super().__init__()
        self.config, d = config, 2 * config.d_hidden
        self.words = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        self.dropout = nn.Dropout(config.dropout)
        self.read_question, self.read_document = (
            BiGru(d_in=config.d_embedding, d_hidden=config.d_hidden) for _ in range(2)
        )
        self.attention = Attention(score=Additive(d_q=d, d_k=d, d_w=config.d_w, bias=False))
        self.joint = nn.Linear(2 * d, d, bias=False)
        self.classify = nn.Linear(d, config.classes)

    def forward(self, **tensors: Tensor) -> Answer:
        asked, told = tensors["first_mask"], tensors["second_mask"]
        read = self.read_question(self.dropout(self.words(tensors["first_ids"])), asked)
        half, last = self.config.d_hidden, pick(read, (asked.sum(1, keepdim=True) - 1).clamp(min=0))
        question = torch.cat([last[..., :half], read[:, :1, half:]], -1)
        document = self.read_document(self.dropout(self.words(tensors["second_ids"])), told)
        found, weights = attend(self.attention, question, document, None, over_keys(told))
        joint = torch.tanh(self.joint(torch.cat([found, question], -1))).squeeze(1)
        return Answer({"logits": self.classify(self.dropout(joint))}, {"document": weights})


def card(network: AttentiveReader, blueprint: Blueprint[AttentiveReaderConfig]) -> Card:
    """Describe the reader."""
    pair = blueprint.pair(f"A sentence with `{cloze.BLANK}` for one of its words, and a document that has the word.")
    found = Attends(one("question"), pair.second, "How much each word of the document tells of the question.")
    return blueprint.card(
        network,
        title="Attentive reader",
        summary="Answers a question, or fills in a word, from what the question finds in a document.",
        inputs=[pair],
        maps=maps_of(network.attention, {"document": found}),
        taxonomy="additive",
        citation="Hermann, Kočiský, Grefenstette, Espeholt, Kay, Suleyman, Blunsom (2015): Teaching Machines to Read "
        "and Comprehend. NeurIPS",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, d_w=5, dropout=0.0),
    "demo": preset(6, 32, 4e-3, patience=2, clip=5.0, vocabulary=3000).sized(
        d_embedding=32, d_hidden=32, d_w=32, dropout=0.2
    ),
    "full": preset(8, 32, 2e-3, patience=2, clip=5.0, vocabulary=20_000),
    "paper": preset(10, 32, 5e-4, weight_decay=0.0, patience=2, clip=5.0, vocabulary=120_000).sized(
        d_embedding=256, d_hidden=256, d_w=256, dropout=0.1
    ),
}

ATTENTIVE_READER = classifying_texts(
    AttentiveReaderConfig, AttentiveReader, card, PRESETS, builtin=cloze.dataset, data=rows.TEXT_PAIRS
)
