"""Label-wise attention LSTM, K17 (Barbieri, Espinosa-Anke, Camacho-Collados, Schockaert & Saggion 2018).

Fig. 1 of the paper, from the bottom: words, two bidirectional LSTMs, words and states of both side by side, weights
over the words for each label, a score a label. The paper predicts the emoji of a tweet.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.queries.label_wise import LabelLinear, LabelWise
from limelight_models.attention.score import Dot
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, LabelSet, maps_of, one
from limelight_models.data import docstrings
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny


class LabelWiseConfig(TextSizes):
    """Sizes. shared: whether all labels have the same weights over the words."""

    d_embedding: int = 64
    d_hidden: int = 32
    dropout: float = 0.4
    shared: bool = False
    max_tokens: int = 256


class LabelWiseLstm(Network):
    """Text -> classes, with the weights of the words for each of them.

    h_t = [x_t; BiLSTM₁(x)_t; BiLSTM₂(BiLSTM₁(x))_t];  a_lt = softmax_t(q_lᵀ h_t);  c_l = Σ_t a_lt h_t (eq. 1–3)
    y_l = w_lᵀ c_l + b_l

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class],
        map `label` [batch, 1, class, token], or with `shared` [batch, 1, 1, token].
    """

    def __init__(self, config: LabelWiseConfig) -> None:
        super().__init__()
        self.config, size = config, config.d_embedding
        self.embedding = nn.Embedding(config.vocabulary, size, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = nn.Dropout(config.dropout)
        self.lower = BiLstm(d_in=size, d_hidden=config.d_hidden)
        self.upper = BiLstm(d_in=2 * config.d_hidden, d_hidden=config.d_hidden)
        d = size + 4 * config.d_hidden
        self.attention = LabelWise(
            attention=Attention(score=Dot()), labels=1 if config.shared else config.classes, d_q=d
        )
        self.classify = LabelLinear(labels=config.classes, d_v=d)

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        words = self.dropout(self.embedding(tensors["token_ids"]))
        lower = self.dropout(self.lower(words, mask))
        states = torch.cat([words, lower, self.dropout(self.upper(lower, mask))], -1)
        found, weights = self.attention(states, mask=mask)
        return Answer({"logits": self.classify(found.expand(-1, self.config.classes, -1))}, {"label": weights})


def card(network: LabelWiseLstm, blueprint: Blueprint[LabelWiseConfig]) -> Card:
    """Describe the network."""
    text = blueprint.text("A short text.")
    labels = LabelSet(name="classes", kind="classes", names=blueprint.labels)
    shown = Attends(labels, text.tokens(), "How much each word counts for each class.", kind="pool")
    if network.config.shared:
        shown = Attends(one("text"), text.tokens(), "How much each word counts, for all classes alike.")
    return blueprint.card(
        network,
        title="Label-wise attention LSTM",
        summary="Classifies a text, weighing its words for each class by itself.",
        inputs=[text],
        maps=maps_of(network.attention, {"label": shown}),
        taxonomy="multiplicative, self-attentive",
        citation="Barbieri, Espinosa-Anke, Camacho-Collados, Schockaert, Saggion (2018): Interpretable Emoji "
        "Prediction via Label-Wise Attention LSTMs. EMNLP",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=4, dropout=0.1),
    "demo": preset(8, 16, 4e-3, patience=3, vocabulary=3000, d_embedding=32, d_hidden=16, dropout=0.5, max_tokens=128),
    "full": preset(8, 32, 3e-3, patience=3, vocabulary=8000),
    # The surveys do not give the paper's sizes: these are of the size that LSTMs for tweets had then.
    "paper": preset(20, 64, 1e-3, vocabulary=50_000, d_embedding=300, d_hidden=512),
}

LABEL_WISE_LSTM = classifying_texts(LabelWiseConfig, LabelWiseLstm, card, PRESETS, builtin=docstrings.texts)
# What the paper compares it with: one row of weights for all labels.
LABEL_WISE_LSTM_SHARED = LABEL_WISE_LSTM.changed(shared=True)
