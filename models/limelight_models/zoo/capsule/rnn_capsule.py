"""RNN-Capsule, J17 (Wang, Sun, Han, Liu & Zhu 2018): a capsule a sentiment, and no other classifier.

Fig. 1 and 2 of the paper, from the bottom: words, a recurrent network, a capsule a class with its attention, its
probability and its reconstruction of the instance. The class is that of the capsule which is most probable, and its
words are those that its attention weighs most.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import average
from limelight_models.attention.queries.capsule import CapsuleAttention
from limelight_models.attention.score import Dot
from limelight_models.attention.signals.capsule import capsule_loss
from limelight_models.blocks.recurrent import BiGru
from limelight_models.cards.language import Attends, Classes, LabelSet, maps_of
from limelight_models.data import docstrings
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny


class RnnCapsuleConfig(TextSizes):
    """Sizes. The paper has d_embedding 300 (GloVe) and d_hidden 256 in each direction.

    reconstruct: whether capsules learn to reconstruct the instance as well (the paper's joint loss, eq. 8).
    """

    d_embedding: int = 64
    d_hidden: int = 48
    dropout: float = 0.3
    reconstruct: bool = True
    max_tokens: int = 512


class RnnCapsule(Network):
    """Text -> classes, with the weights of each class's capsule over the words.

    H = RNN(x);  a_c = softmax(H w_c);  v_c = Σ_t a_ct h_t;  p_c = sigmoid(u_cᵀ v_c + b_c);  r_c = p_c v_c

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class], the log-odds of p,
        map `capsule` [batch, 1, class, token].
    """

    def __init__(self, config: RnnCapsuleConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = BiGru(d_in=config.d_embedding, d_hidden=config.d_hidden)
        d = self.encoder.d_out
        self.capsules = CapsuleAttention(attention=Attention(score=Dot()), classes=config.classes, d_q=d, d_v=d)

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        words = self.dropout(self.embedding(tensors["token_ids"]))
        states = self.dropout(self.encoder(words, mask))
        capsules, weights = self.capsules(states, mask=mask)
        signals = {
            "probability": capsules.probability,
            "reconstruction": capsules.reconstruction,
            "average": average(states, mask),
        }
        return Answer({"logits": torch.logit(capsules.probability, eps=1e-6)}, {"capsule": weights}, signals)

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """The joint loss in place of cross-entropy, or that of the probabilities alone (paper eq. 6–8), balanced."""
        signals = answer.signals
        reconstruction = signals["reconstruction"]
        if not self.config.reconstruct:
            reconstruction = torch.zeros_like(reconstruction)  # adds a constant
        return len(losses) * capsule_loss(
            signals["probability"], reconstruction, signals["average"], target, balanced=True
        )


def card(network: RnnCapsule, blueprint: Blueprint[RnnCapsuleConfig]) -> Card:
    """Describe the network."""
    text = blueprint.text("A text, such as a sentence or a review.")
    capsules = LabelSet(name="classes", kind="classes", names=blueprint.labels)
    about = "How much each word counts in the capsule of each class."
    return blueprint.card(
        network,
        title="RNN-Capsule",
        summary="Classifies a text by one capsule a class, each with its own weights of the words and its probability.",
        inputs=[text],
        results=[
            Classes(labels=blueprint.labels),
            Classes(labels=blueprint.labels, name="capsules", activation="sigmoid"),
        ],
        maps=maps_of(network.capsules, {"capsule": Attends(capsules, text.tokens(), about, kind="pool")}),
        taxonomy="multiplicative, self-attentive, capsule",
        citation="Wang, Sun, Han, Liu, Zhu (2018): Sentiment Analysis by Capsules. WWW",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, dropout=0.1),
    "demo": preset(8, 16, 4e-3, vocabulary=3000, d_embedding=32, d_hidden=24, dropout=0.5, max_tokens=128),
    "full": preset(8, 32, 3e-3, patience=3, vocabulary=8000, dropout=0.4),
    # The authors' code for film reviews, whose network is an LSTM of two layers over words that GloVe has made; those
    # learn a tenth as fast.
    "paper": preset(60, 64, 1e-3, weight_decay=0.0, patience=10, vocabulary=30_000).sized(
        d_embedding=300, d_hidden=256, dropout=0.5, max_tokens=64
    ),
}

RNN_CAPSULE = classifying_texts(RnnCapsuleConfig, RnnCapsule, card, PRESETS, builtin=docstrings.texts)
# The same with the loss of the probabilities alone: what learning to reconstruct is compared with.
RNN_CAPSULE_PROBABILITY = RNN_CAPSULE.changed(reconstruct=False)
