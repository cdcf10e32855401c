"""Attentive pooling network, K12 (dos Santos, Tan, Xiang & Zhou 2016): two texts, each read with the other in view.

Fig. 2 of the paper, from the bottom: words, a bidirectional LSTM that both texts share, a matrix of how well their
words fit each other, whose rows and columns are pooled into weights, and a vector of each text. Ours: where the paper
ranks answers by the cosine of the two vectors, classes of the pair are told from both.
"""

from limelight_models.attention import Attention
from limelight_models.attention.features import Parallel, Pooling, TanhBilinear
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.data import inference, rows
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny
from limelight_models.zoo.sentence_pairs.compared import SIDES, ComparedPair


class AttentivePoolingConfig(TextSizes):
    """Sizes. The paper has d_embedding 100 and d_hidden 141 in each direction for InsuranceQA.

    attentive: whether the two texts decide each other's weights; without, the largest of each feature is taken (§3).
    """

    attentive: bool = True
    d_embedding: int = 64
    d_hidden: int = 48
    d_compare: int = 96
    dropout: float = 0.3
    max_tokens: int = 64


class AttentivePooling(ComparedPair):
    """Two texts -> classes of the pair, with the weights of the words of both.

    As §4 of the paper has it:
    Q = BiLSTM(q), A = BiLSTM(a);  G = tanh(Qᵀ U A);  g^q_j = max_m G_jm, g^a_m = max_j G_jm
    σ^q = softmax(g^q), σ^a = softmax(g^a);  r^q = Q σ^q, r^a = A σ^a
    Ours: logits = W relu(W' [r^q; r^a; r^q - r^a; r^q ⊙ r^a])

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same -> logits [batch, class],
        maps `first` [batch, 1, 1, first], `second` [batch, 1, 1, second], `affinity` [batch, 1, first, second].
        Without attention there is no map.
    """

    def __init__(self, config: AttentivePoolingConfig) -> None:
        attention = Attention(score=TanhBilinear(d_q=2 * config.d_hidden, d_k=2 * config.d_hidden))
        super().__init__(config, Parallel(attention=attention, aggregate=Pooling()) if config.attentive else None)


def card(network: AttentivePooling, blueprint: Blueprint[AttentivePoolingConfig]) -> Card:
    """Describe the network."""
    pair = blueprint.pair("Two texts: a question and an answer, or what is given and what is asked about it.")
    maps = {
        side: Attends(one(f"{side} text"), tokens, f"How much each word of the {side} text counts.", kind="co")
        for side, tokens in zip(SIDES, (pair.first, pair.second), strict=True)
    }
    fits = "How well each word of the first text fits each of the second; the best of a word decides its weight."
    maps["affinity"] = Attends(pair.first, pair.second, fits, kind="co")
    return blueprint.card(
        network,
        title="Attentive pooling network",
        summary="Tells how two texts are related; a word counts as much as the best of the other text fits it.",
        inputs=[pair],
        maps={} if network.pool is None else maps_of(network.pool, maps),
        taxonomy="parallel co-attention, activated general, specialised",
        citation="dos Santos, Tan, Xiang, Zhou (2016): Attentive Pooling Networks. arXiv:1602.03609",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, d_compare=8, dropout=0.0),
    "demo": preset(6, 32, 4e-3, patience=2, vocabulary=500, d_embedding=24, d_hidden=16, d_compare=32, dropout=0.1),
    "full": preset(8, 32, 2e-3, patience=2, vocabulary=8000),
    # The sizes of the paper's largest recurrent network, with Adam in the place of plain gradient descent.
    "paper": preset(25, 20, 1e-3, patience=5, vocabulary=40_000, d_embedding=100, d_hidden=141, d_compare=282),
}

ATTENTIVE_POOLING = classifying_texts(
    AttentivePoolingConfig, AttentivePooling, card, PRESETS, builtin=inference.dataset, data=rows.TEXT_PAIRS
)
# What the paper compares it with: the largest of each feature, in the place of both vectors.
ATTENTIVE_POOLING_LARGEST = ATTENTIVE_POOLING.changed(attentive=False)
