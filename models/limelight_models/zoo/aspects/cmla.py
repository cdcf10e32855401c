"""Coupled multi-layer attentions, K28 (Wang, Pan, Dahlmeier & Xiao 2017): aspects and opinions look for each other.

Figure 1 of the paper: a recurrent network reads words; two attentions, for aspects and for opinions, compare each word
with their own prototype and with the other's; what they find makes the prototypes of the next layer. Here one tag is
told from both, where the paper has one of either; words are read both ways, as the average of their pieces.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, of_pieces, over_keys
from limelight_models.attention.queries.learned import LearnedQuery
from limelight_models.attention.score import Dot
from limelight_models.attention.weights import AroundAttention
from limelight_models.blocks.recurrent import BiGru
from limelight_models.cards.language import Attends, Classes, WordsInput, maps_of, numbered
from limelight_models.data import rows, terms, tokenizers
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Recipe, TextSizes, of_texts, preset, tiny
from limelight_models.tasks.entities import Entities
from limelight_models.tasks.heads import Scores

KINDS = ("aspect", "opinion")


class CmlaConfig(TextSizes):
    """Sizes. The paper has d_embedding 150, d_hidden 50, 20 tensors and 2 layers.

    tensors: K, numbers that compare a word with a prototype. coupled: whether with the other's as well.
    """

    layers: int = 2
    tensors: int = 16
    coupled: bool = True
    d_embedding: int = 64
    d_hidden: int = 32
    dropout: float = 0.3
    max_words: int = 64
    max_pieces: int = 16


class Side(AroundAttention, nn.Module):
    """One of the attentions: for aspects, or for opinions.

    β_i = tanh([h_iᵀ G u; h_iᵀ D ū]), ū the other's prototype;  r_i = GRU(β_i, r_{i-1});  e_i = vᵀ r_i
    α = softmax(e), o = Σ_i α_i h_i;  u ← tanh(V u) + o, for the next layer

    Shapes: states [batch, word, d], prototypes u, ū [batch, d], mask bool [batch, word] -> r [batch, word, d_r], u
        [batch, d], weights [batch, 1, 1, word].
    """

    deciding = ("",)

    def __init__(self, config: CmlaConfig) -> None:
        super().__init__()
        d, prototypes = 2 * config.d_hidden, 1 + config.coupled
        self.tensors = nn.Parameter(torch.randn(prototypes, config.tensors, d, d) / d)  # G and D
        size = prototypes * config.tensors
        self.reads = nn.GRU(size, size, batch_first=True)
        self.looks, self.prototype = LearnedQuery(d_q=size), LearnedQuery(d_q=d)
        self.attention = Attention(score=Dot())
        self.on = nn.Linear(d, d, bias=False)

    def forward(self, states: Tensor, own: Tensor, other: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        prototypes = torch.stack([own, other], 1)[:, : len(self.tensors), None, :, None]
        asked = (self.tensors @ prototypes).squeeze(-1).flatten(1, 2)  # [batch, K or 2 K, d]
        read, _ = self.reads(torch.tanh(states @ asked.transpose(1, 2)))
        found, weights = attend(self.attention, self.looks(states).squeeze(1), read, states, over_keys(mask))
        return read, torch.tanh(self.on(own)) + found.squeeze(1), weights


class Cmla(Network):
    """Words -> a tag for each, with the weights of the words for aspects and for opinions, layer by layer.

    h = BiGRU(x);  the sides `aspect` and `opinion`, T times, both with what the layer before has left (§3);
    logits_i = W [r_i^aspect; r_i^opinion] + b, of the last layer

    Shapes: token_ids int64 [batch, word, piece], token_mask bool of the same -> logits [batch, word, class], maps
        `aspect` and `opinion` [batch, 1, layer, word]. All layers have the same parameters.
    """

    def __init__(self, config: CmlaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = BiGru(d_in=config.d_embedding, d_hidden=config.d_hidden)
        self.sides = nn.ModuleDict({kind: Side(config) for kind in KINDS})
        d_read = 2 * config.tensors * (1 + config.coupled)
        self.classify = Scores(d_in=d_read, d_out=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        mask, embedded = tensors["token_mask"], self.embedding(tensors["token_ids"])
        words = of_pieces(embedded, mask)
        real = mask.any(-1)
        states = self.dropout(self.encoder(self.dropout(words), real))
        prototypes = [side.prototype(states)[:, 0, 0] for side in self.sides.values() if isinstance(side, Side)]
        looks: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
        read: list[Tensor] = []
        for _ in range(self.config.layers):
            pairs = zip(self.sides.values(), (prototypes, prototypes[::-1]), strict=True)
            made = [side(states, *given, real) for side, given in pairs]
            read, prototypes = [each[0] for each in made], [each[1] for each in made]
            for kind, (_, _, weights) in zip(KINDS, made, strict=True):
                looks[kind].append(weights)
        return Answer(
            {"logits": self.classify(torch.cat(read, -1))}, {kind: torch.cat(each, 2) for kind, each in looks.items()}
        )


def card(network: Cmla, blueprint: Blueprint[CmlaConfig]) -> Card:
    """Describe the network."""
    config = network.config
    text = WordsInput(tokenizer=blueprint.tokenizer(), max_sentences=config.max_words, max_words=config.max_pieces)
    layers, about = numbered("layers", "hops", "layer", config.layers), "How much each word counts as an {}, by layer."
    return blueprint.card(
        network,
        title="Coupled multi-layer attentions",
        summary="Finds what a sentence speaks of and what it thinks of that, by two attentions that meet.",
        inputs=[text],
        results=[Classes(labels=blueprint.labels, name="tags", over=text.sentences)],
        maps=maps_of(network.sides, {"{}": Attends(layers, text.sentences, about, kind="pool")}),
        taxonomy="scoring: bilinear tensor, parallel co-attention, multi-hop",
        citation="Wang, Pan, Dahlmeier, Xiao (2017): Coupled Multi-Layer Attentions for Co-Extraction of Aspect and "
        "Opinion Terms. AAAI",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, tensors=3, d_embedding=8, d_hidden=4, dropout=0.0),
    "demo": preset(10, 32, 4e-3, patience=3, vocabulary=300, tensors=8, d_embedding=32, d_hidden=16, dropout=0.1),
    "full": preset(20, 32, 2e-3, vocabulary=4000, patience=5),
    # Their words begin as word2vec has them.
    "paper": preset(30, 16, 1e-3, vocabulary=20_000, patience=5, tensors=20, d_embedding=150, d_hidden=50, dropout=0.5),
}

CMLA = Recipe(
    CmlaConfig,
    Cmla,
    card,
    of_texts(CmlaConfig, tokenizers.within_words),
    PRESETS,
    task=Entities(),
    data=rows.TAGGED,
    builtin=terms.dataset,
)
# Both look for their own alone; and once.
CMLA_APART, CMLA_ONE = CMLA.changed(coupled=False), CMLA.changed(layers=1)
