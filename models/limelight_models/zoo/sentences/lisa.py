"""Linguistically-informed self-attention, P15 (Strubell, Verga, Andor, Weiss & McCallum 2018): a head that parses.

Figure 1 of the paper, from the bottom: words and places, layers of self-attention, of which one has a head with the
form of a dependency parser that is taught to look at each word's head (I3), and a role for each word. The paper tags
parts of speech and finds predicates as well, and gives each word a role beside every predicate, by a bilinear form;
here a word has one role, beside the verb that it depends on. A word's embedding is the average of its pieces'. That the
parse may be given is an intervention of the served model: the first head's weights are replaced.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import of_pieces
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import BiasedGeneral, PerHead, ScaledDot
from limelight_models.blocks.transformer import PostNormLayer, places
from limelight_models.cards.language import Classes, LabelSet, WordsInput, map_of
from limelight_models.data import roles, rows, tokenizers
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Recipe, TextSizes, of_texts, preset, tiny
from limelight_models.tasks.heads import Scores
from limelight_models.tasks.parse import Parse


class LisaConfig(TextSizes):
    """Sizes. parsing: the layer with the syntactic head, counted from 0."""

    d_model: int = 64
    layers: int = 3
    parsing: int = 1
    heads: int = 4
    d_hidden: int = 128
    dropout: float = 0.1
    max_words: int = 64
    max_pieces: int = 16


class Lisa(Network):
    """Words -> a role a word; in one layer the first head looks at the word that each word depends on.

    A_parse = softmax(Q U Kᵀ) in place of one of the heads of scaled dot products (§2.2)

    Shapes: token_ids int64 [batch, word, piece], token_mask bool of the same -> logits [batch, word, class], maps
        `encoder.<layer>.self` [batch, head, word, word].
    """

    def __init__(self, config: LisaConfig) -> None:
        super().__init__()
        self.config, d, heads = config, config.d_model, config.heads
        self.embedding = nn.Embedding(config.vocabulary, d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.ModuleList()
        for layer in range(config.layers):
            score = parser(d_head=d // heads, heads=heads) if layer == config.parsing else ScaledDot()
            attention = MultiHead(attention=Attention(score=score), d_model=d, heads=heads)
            self.encoder.append(
                PostNormLayer(d_model=d, d_hidden=config.d_hidden, dropout=config.dropout, attention=attention)
            )
        self.classify = Scores(d_in=d, d_out=config.classes, dropout=config.dropout)

    @property
    def parses(self) -> str:
        """The map whose first head looks at the word that each word depends on."""
        return f"encoder.{self.config.parsing}.self"

    def forward(self, **tensors: Tensor) -> Answer:
        ids, mask, d = tensors["token_ids"], tensors["token_mask"], self.config.d_model
        real, embedded = mask.any(-1), self.embedding(ids)
        words = of_pieces(embedded, mask)
        # √d: what a word is, beside where it is (Vaswani et al. 2017, §3.4).
        features = self.dropout(d**0.5 * words + places(torch.arange(ids.shape[1], device=ids.device), words))
        maps = {}
        for number, layer in enumerate(self.encoder):
            features, weights = layer(features, real)
            maps[f"encoder.{number}.self"] = weights * real[:, None, :, None]  # padding asks for nothing
        return Answer({"logits": self.classify(features)}, maps)


def parser(*, d_head: int, heads: int) -> PerHead:
    """Scores of which the first head's are a parser's, and the others' scaled dot products."""
    return PerHead(scores=[BiasedGeneral(d_q=d_head, d_k=d_head), *(ScaledDot() for _ in range(heads - 1))])


def card(network: Lisa, blueprint: Blueprint[LisaConfig]) -> Card:
    """Describe the network."""
    config = network.config
    text = WordsInput(tokenizer=blueprint.tokenizer(), max_sentences=config.max_words, max_words=config.max_pieces)
    words = text.sentences
    named = LabelSet(name="heads", kind="heads", names=("syntax", *(f"free {n}" for n in range(1, config.heads))))
    maps = {}
    for number, layer in enumerate(network.encoder):
        parses = number == config.parsing
        summary = f"Which words each word looks at in layer {number}"
        maps[f"encoder.{number}.self"] = map_of(
            layer,
            "self",
            queries=words,
            keys=words,
            of_heads=named if parses else None,
            summary=f"{summary}; of the first head, which word it depends on." if parses else f"{summary}.",
        )
    return blueprint.card(
        network,
        title="Linguistically-informed self-attention",
        summary="Says who does what to whom in a sentence; one head looks at the word that each word depends on.",
        inputs=[text],
        results=[Classes(labels=blueprint.labels, name="tags", over=words)],
        maps=maps,
        taxonomy="general, scaled multiplicative, self-attentive, multi-head, multi-hop",
        citation="Strubell, Verga, Andor, Weiss, McCallum (2018): Linguistically-Informed Self-Attention for Semantic "
        "Role Labeling. EMNLP",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_model=8, layers=2, heads=2, d_hidden=8),
    "demo": preset(20, 32, 2e-3, vocabulary=300, d_model=32, d_hidden=64),
    "full": preset(30, 32, 1e-3, vocabulary=4000, patience=6),
    # The authors' program, but for its rate and for words that begin as GloVe has them.
    "paper": preset(200, 256, 1e-3, weight_decay=0.0, patience=20, vocabulary=20_000).sized(
        d_model=200, layers=12, parsing=5, heads=8, d_hidden=800
    ),
}

LISA = Recipe(
    LisaConfig,
    Lisa,
    card,
    of_texts(LisaConfig, tokenizers.within_words),
    PRESETS,
    task=Parse(),
    data=rows.TAGGED,
    builtin=roles.dataset,
)
# What the taught head is compared with: the same network, whose syntactic head learns with the roles alone.
LISA_FREE = LISA.but(task=Parse(weight=0.0))
