"""Structured self-attentive embedding, K16 (Lin et al. 2017): a sentence as several vectors, each of other words.

Fig. 1 of the paper, from the bottom: words, a bidirectional LSTM, several distributions over its states, a row of the
sentence matrix for each, classes. A penalty keeps the distributions apart and narrow.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.score import ImportanceMatrix
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import map_of, numbered, one
from limelight_models.data import docstrings
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny


class StructuredConfig(TextSizes):
    """Sizes. The paper has d_embedding 100, d_hidden 300 in each direction, d_attention 350, rows 30, penalty 1.

    rows: of the sentence matrix, r in the paper. penalty: what the penalty is multiplied by in the loss; 0 leaves it
    out. With 1 nothing but the penalty was learned from the 6,920 sentences of sst2 (accuracy 50.2 %, the majority
    class has 49.9 %). d_classify: of the layer before the classes.
    """

    rows: int = 8
    penalty: float = 0.03
    d_embedding: int = 64
    d_hidden: int = 48
    d_attention: int = 64
    d_classify: int = 96
    dropout: float = 0.5
    max_tokens: int = 256


class StructuredEmbedding(Network):
    """Text -> classes, with the weights of each row of its sentence matrix.

    H = BiLSTM(S) (eq. 1–4);  A = softmax(W_s2 tanh(W_s1 Hᵀ)) (eq. 6);  M = A H (eq. 7)
    P = ‖A Aᵀ - I‖²_F (eq. 8), of every text, is added to the loss;  logits = W relu(W' M)

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class],
        map `pool` [batch, row of M, 1, token]; the penalty [batch] among the signals.
    """

    def __init__(self, config: StructuredConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = BiLstm(d_in=config.d_embedding, d_hidden=config.d_hidden)
        d = self.encoder.d_out
        score = ImportanceMatrix(d_k=d, d_w=config.d_attention, outputs=config.rows, bias=False)
        self.pool = SelfAttentivePool(attention=Attention(score=score))
        self.classify = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(config.rows * d, config.d_classify),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.d_classify, config.classes),
        )

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        states = self.encoder(self.dropout(self.embedding(tensors["token_ids"])), mask)
        matrix, weights = self.pool(states, mask=mask)  # the rows of M one after the other: [batch, row · 2 d_hidden]
        return Answer({"logits": self.classify(matrix)}, {"pool": weights}, {"penalty": redundancy(weights[:, :, 0])})

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Cross-entropy, and the penalty of every text."""
        return losses.sum() + self.config.penalty * answer.signals["penalty"].sum()


def redundancy(weights: Tensor) -> Tensor:
    """Penalty on similar or wide rows of weights: ‖A Aᵀ - I‖²_F (eq. 8).

    Shapes: [batch, row, token] -> [batch].
    """
    alike = weights @ weights.transpose(-2, -1)
    return (alike - torch.eye(weights.shape[-2], dtype=alike.dtype, device=alike.device)).square().sum((-2, -1))


def card(network: StructuredEmbedding, blueprint: Blueprint[StructuredConfig]) -> Card:
    """Describe the network."""
    config = network.config
    text = blueprint.text("A sentence or a short text.")
    pool = map_of(
        network.pool,
        "pool",
        queries=one("text"),
        keys=text.tokens(),
        of_heads=numbered("rows", "heads", "row", config.rows),
        summary="How much each word counts in each row of the sentence matrix.",
    )
    return blueprint.card(
        network,
        title="Structured self-attentive embedding",
        summary="Classifies a text by a matrix of which each row is another weighted sum of its words.",
        inputs=[text],
        maps={"pool": pool},
        taxonomy="additive, self-attentive, multi-head",
        citation="Lin, Feng, dos Santos, Yu, Xiang, Zhou, Bengio (2017): A Structured Self-attentive Sentence "
        "Embedding. ICLR",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, d_attention=8, d_classify=8, rows=3, dropout=0.1),
    "demo": preset(5, 16, 3e-3, patience=3, vocabulary=3000).sized(
        d_embedding=32, d_hidden=24, d_attention=32, rows=4, max_tokens=128
    ),
    "full": preset(8, 32, 2e-3, patience=2, vocabulary=12_000),
    # The authors' for reviews (§4.2), with Adam in the place of plain gradient descent.
    "paper": preset(30, 16, 1e-3, weight_decay=1e-4, patience=5, clip=0.5, vocabulary=40_000).sized(
        d_embedding=100, d_hidden=300, d_attention=350, d_classify=3000, rows=30, penalty=1.0
    ),
}

STRUCTURED = classifying_texts(StructuredConfig, StructuredEmbedding, card, PRESETS, builtin=docstrings.texts)
# What the paper compares it with (§4.4): no penalty, and one row.
STRUCTURED_FREE = STRUCTURED.changed(penalty=0.0)
STRUCTURED_ONE = STRUCTURED.changed(rows=1)
