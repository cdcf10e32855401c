"""Deep biaffine parser, P14 (Dozat & Manning 2017): where a word looks is the word that it depends on.

Figure 2 of the paper, from the bottom: words, BiLSTMs, two small networks that strip a word's state to what matters of
it as a dependent and as a head, and a biaffine form between both; another tells each word's relation to its head. The
paper has words of a treebank with their parts of speech, and a root of its own; here a word's embedding is the average
of its pieces', a root depends on itself, and the relation is told from the mean of the heads, weighed by the parse, in
the place of the most probable one: a parse that is given (an intervention on the map) changes relations as well.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, of_pieces, over_keys
from limelight_models.attention.score import BiasedGeneral
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, Classes, WordsInput, maps_of
from limelight_models.data import roles, rows, tokenizers
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Recipe, TextSizes, of_texts, preset, tiny
from limelight_models.tasks.parse import Parse


class BiaffineConfig(TextSizes):
    """Sizes. d_arc, d_relation: of a word as dependent or head. deep: whether states are stripped to these first."""

    d_embedding: int = 64
    d_hidden: int = 64
    layers: int = 2
    d_arc: int = 64
    d_relation: int = 32
    dropout: float = 0.1
    deep: bool = True
    max_words: int = 64
    max_pieces: int = 16


class Stripped(nn.Sequential):
    """h = relu(W r + b) (§3.2)."""

    def __init__(self, *, d_in: int, d_out: int, dropout: float) -> None:
        super().__init__(nn.Linear(d_in, d_out), nn.ReLU(), nn.Dropout(dropout))


class Biaffine(Network):
    """Words -> for each the probability of each other as its head, and scores of its relation.

    r = BiLSTM(x);  h_i^dep = MLP(r_i), h_j^head = MLP'(r_j) (eq. 4–5);  s_i = H^head U h_i^dep + H^head u (eq. 6)
    a_i = softmax(s_i);  c_i = Σ_j a_ij g_j^head;  relation: (g_i^dep)ᵀ U_l c_i + V_lᵀ [g_i^dep; c_i] + b_l (eq. 3)

    Shapes: token_ids int64 [batch, word, piece], token_mask bool of the same -> parents [batch, word, word], logits
        [batch, word, class], map `words.self` [batch, 1, word, word].
    """

    parses = "words.self"

    def __init__(self, config: BiaffineConfig) -> None:
        super().__init__()
        self.config, d = config, 2 * config.d_hidden
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        self.dropout = nn.Dropout(config.dropout)
        sizes = [config.d_embedding, *[d] * (config.layers - 1)]
        self.encoder = nn.ModuleList(BiLstm(d_in=size, d_hidden=config.d_hidden) for size in sizes)
        d_arc = config.d_arc if config.deep else d
        self.dependent, self.head = (self.stripped(d_arc) for _ in range(2))
        self.related, self.relates = (self.stripped(config.d_relation) for _ in range(2))
        self.attention = Attention(score=BiasedGeneral(d_q=d_arc, d_k=d_arc))
        d_relation = config.d_relation if config.deep else d
        self.relation = nn.Bilinear(d_relation, d_relation, config.classes)
        self.either = nn.Linear(2 * d_relation, config.classes, bias=False)

    def stripped(self, size: int) -> nn.Module:
        """Of a word's state so many features; the state as it is where the parser is not deep."""
        config = self.config
        return Stripped(d_in=2 * config.d_hidden, d_out=size, dropout=config.dropout) if config.deep else nn.Identity()

    def forward(self, **tensors: Tensor) -> Answer:
        mask, embedded = tensors["token_mask"], self.embedding(tensors["token_ids"])
        real, states = mask.any(-1), of_pieces(embedded, mask)
        for layer in self.encoder:
            states = layer(self.dropout(states), real)
        states = self.dropout(states)
        heads, weights = attend(
            self.attention, self.dependent(states), self.head(states), self.relates(states), over_keys(real)
        )
        weights = weights * real[:, None, :, None]  # padding asks for nothing
        related = self.related(states)
        relation = self.relation(related, heads) + self.either(torch.cat([related, heads], -1))
        return Answer({"parents": weights.squeeze(1), "logits": relation}, {self.parses: weights})


def card(network: Biaffine, blueprint: Blueprint[BiaffineConfig]) -> Card:
    """Describe the network."""
    config = network.config
    text = WordsInput(tokenizer=blueprint.tokenizer(), max_sentences=config.max_words, max_words=config.max_pieces)
    words = text.sentences
    return blueprint.card(
        network,
        title="Deep biaffine parser",
        summary="Says on which word each word of a sentence depends, and how; a root depends on itself.",
        inputs=[text],
        results=[
            Classes(name="heads", scores="parents", activation="identity", over=words, entries=words),
            Classes(labels=blueprint.labels, name="tags", over=words),
        ],
        maps=maps_of(network.attention, {network.parses: Attends(words, words, "On which word each word depends.")}),
        taxonomy="general, self-attentive",
        citation="Dozat, Manning (2017): Deep Biaffine Attention for Neural Dependency Parsing. ICLR",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, layers=1, d_arc=7, d_relation=5),
    "demo": preset(12, 32, 4e-3, vocabulary=300, d_embedding=32, d_hidden=32, d_arc=32, d_relation=16),
    "full": preset(30, 32, 2e-3, vocabulary=4000, patience=6),
    "paper": preset(200, 64, 2e-3, weight_decay=0.0, patience=20, vocabulary=20_000, d_embedding=100).sized(
        d_hidden=400, layers=3, d_arc=500, d_relation=100, dropout=0.33
    ),
}

BIAFFINE = Recipe(
    BiaffineConfig,
    Biaffine,
    card,
    of_texts(BiaffineConfig, tokenizers.within_words),
    PRESETS,
    task=Parse(),
    data=rows.TAGGED,
    builtin=roles.dataset,
)
# What the paper compares it with: the form between states as they are.
BIAFFINE_SHALLOW = BIAFFINE.changed(deep=False)
