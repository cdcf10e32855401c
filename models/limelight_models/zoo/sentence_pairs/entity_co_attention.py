"""Mention and entity description co-attention, P15 (Nie, Cao, Wang, Lin & Pan 2018): is this the entity that is meant?

A sentence with a name in it and the description of an entity are read by a bidirectional LSTM; attention in each knows
what attention to the other has found (nested in a perceptron, as Galassi et al. 2021, Table 4, has it). Ours: the paper
ranks the candidates of a knowledge base; here it is told of one whether it is meant.
"""

from limelight_models.attention import Attention
from limelight_models.attention.features import NestedPerceptron, Parallel, TanhBilinear
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.data import mentions, rows
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny
from limelight_models.zoo.sentence_pairs.compared import SIDES, ComparedPair


class EntityCoAttentionConfig(TextSizes):
    """Sizes."""

    d_embedding: int = 64
    d_hidden: int = 48
    d_attention: int = 64
    d_compare: int = 96
    dropout: float = 0.3
    max_tokens: int = 64


class EntityCoAttention(ComparedPair):
    """A mention's text and an entity's description -> whether it is meant, with the weights of the words of both.

    K = BiLSTM(mention), Q = BiLSTM(description);  E = tanh(K U Qᵀ)
    M_1 = softmax of E over the description's words, M_2 over the mention's
    a_K = softmax(w_3ᵀ tanh(W_1 K + (W_2 Q) M_1ᵀ)),  a_Q = softmax(w_4ᵀ tanh(W_2 Q + (W_1 K) M_2))
    logits = W relu(W' [k; q; k - q; k ⊙ q]),  k = Σ a_K K,  q = Σ a_Q Q

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same -> logits [batch, class],
        maps `first` [batch, 1, 1, first], `second` [batch, 1, 1, second], `affinity` [batch, 1, first, second].
    """

    def __init__(self, config: EntityCoAttentionConfig) -> None:
        d = 2 * config.d_hidden
        nested = NestedPerceptron(d_first=d, d_second=d, d_w=config.d_attention)
        super().__init__(config, Parallel(attention=Attention(score=TanhBilinear(d_q=d, d_k=d)), aggregate=nested))


def card(network: EntityCoAttention, blueprint: Blueprint[EntityCoAttentionConfig]) -> Card:
    """Describe the network."""
    pair = blueprint.pair("What is said of a name, and the description of an entity that has it.")
    names = ("what is said", "the description")
    maps = {
        side: Attends(one(f"{side} text"), tokens, f"How much each word of {name} counts.", kind="co")
        for side, tokens, name in zip(SIDES, (pair.first, pair.second), names, strict=True)
    }
    fits = "How well each word of what is said fits each of the description."
    maps["affinity"] = Attends(pair.first, pair.second, fits, kind="co")
    return blueprint.card(
        network,
        title="Co-attention of mention and description",
        summary="Tells whether a name in a text means the entity of a description.",
        inputs=[pair],
        maps={} if network.pool is None else maps_of(network.pool, maps),
        taxonomy="parallel co-attention, activated general, specialised",
        citation="Nie, Cao, Wang, Lin, Pan (2018): Mention and Entity Description Co-Attention for Entity "
        "Disambiguation. AAAI",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, d_attention=8, d_compare=8, dropout=0.0),
    "demo": preset(8, 32, 4e-3, patience=3, vocabulary=300, d_embedding=24, d_hidden=16, d_attention=24, d_compare=32),
    "full": preset(8, 32, 2e-3, patience=2, vocabulary=8000),
    "paper": preset(25, 64, 1e-3, patience=5, vocabulary=40_000, d_embedding=300, d_hidden=150, d_attention=300),
}

ENTITY_CO_ATTENTION = classifying_texts(
    EntityCoAttentionConfig, EntityCoAttention, card, PRESETS, builtin=mentions.dataset, data=rows.TEXT_PAIRS
)
