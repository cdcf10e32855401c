"""LCR-Rot-hop, J8 (Wallaart & Frasincar 2019): a target between its left and its right, asked in turns.

The paper's figure, from the bottom: words of the three parts, a bidirectional LSTM each, rotatory attention from the
target to its surroundings and back (LCR-Rot, Zheng & Xia 2018), repeated in hops, classes of the four vectors.
"""

from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.features import Rotation, Rotatory, RotatoryWeights
from limelight_models.attention.score import ActivatedGeneral
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, maps_of, numbered
from limelight_models.cards.parts import PARTS, parts_of
from limelight_models.data import aspects, rows
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny
from limelight_models.tasks.aspects import ClassifyTargets
from limelight_models.tasks.heads import Scores

# The attentions of one turn, with the part that each of them looks at.
LOOKS = {"left": "left", "right": "right", "left_target": "target", "right_target": "target"}
ABOUT = {
    "left": "how much each word before the target counts for it",
    "right": "how much each word after the target counts for it",
    "left_target": "how much each word of the target counts for what was found before it",
    "right_target": "how much each word of the target counts for what was found after it",
}


class LcrRotConfig(TextSizes):
    """Sizes. The paper has d_embedding 300 (GloVe, kept as it is), d_hidden 300 in each direction, and 3 hops."""

    hops: int = 3
    d_embedding: int = 64
    d_hidden: int = 48
    dropout: float = 0.5
    max_tokens: int = 96


class LcrRotHop(Network):
    """A sentence's opinion about a target in it -> classes, with the weights of every hop.

    H^l, H^t, H^r = BiLSTM(x) of each part;  r^t = average of H^t;  e = tanh(hᵀ W r + b)
    a hop: r^l and r^r from the query r^t, or the last hop's r^tl and r^tr; then r^tl and r^tr from r^l and r^r
    v = [r^l; r^tl; r^tr; r^r] of the last hop (Zheng & Xia 2018, eq. 5–14)

    Shapes: left_ids, target_ids, right_ids int64 [batch, position], masks bool of the same -> logits [batch, class],
        maps `left`, `right`, `left_target` and `right_target` [batch, 1, hop, position].
    """

    def __init__(self, config: LcrRotConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.encoders = nn.ModuleDict(
            {part: BiLstm(d_in=config.d_embedding, d_hidden=config.d_hidden) for part in PARTS}
        )
        d = 2 * config.d_hidden
        self.rotatory = Rotatory(rotations=[turn(d) for _ in range(config.hops)])
        self.dropout = nn.Dropout(config.dropout)
        self.classify = Scores(d_in=4 * d, d_out=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        masks = [tensors[f"{part}_mask"] for part in PARTS]
        words = (self.dropout(self.embedding(tensors[f"{part}_ids"])) for part in PARTS)
        states = [read(each, mask) for read, each, mask in zip(self.encoders.values(), words, masks, strict=True)]
        vector, weights = self.rotatory(*states, *masks)
        return Answer({"logits": self.classify(vector)}, weights._asdict())


def turn(d: int) -> Rotation:
    """One hop, each attention with its own activated general score (Zheng & Xia 2018, eq. 6 and 9)."""
    return Rotation(**{name: Attention(score=ActivatedGeneral(d_q=d, d_k=d)) for name in RotatoryWeights._fields})


def card(network: LcrRotHop, blueprint: Blueprint[LcrRotConfig]) -> Card:
    """Describe the network."""
    config = network.config
    parts = parts_of(blueprint.tokenizer(), max_tokens=config.max_tokens)
    hops = numbered("hops", "hops", "hop", config.hops)
    maps = {
        name: Attends(hops, parts[LOOKS[name]].tokens(LOOKS[name]), f"In each hop, {ABOUT[name]}.", kind="pool")
        for name in RotatoryWeights._fields
    }
    return blueprint.card(
        network,
        title="LCR-Rot-hop" if config.hops > 1 else "LCR-Rot",
        summary="Tells what a sentence says of a target in it; attention turns between it and what stands around.",
        inputs=list(parts.values()),
        maps=maps_of(network.rotatory, maps),
        taxonomy="rotatory, activated general, specialised" + ", multi-hop" * (config.hops > 1),
        citation="Wallaart, Frasincar (2019): A Hybrid Approach for Aspect-Based Sentiment Analysis Using a "
        "Lexicalized Domain Ontology and Attentional Neural Models. ESWC",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, hops=2, d_embedding=8, d_hidden=6, dropout=0.0),
    "demo": preset(8, 32, 4e-3, patience=2, vocabulary=500, d_embedding=24, d_hidden=16, dropout=0.1),
    "full": preset(6, 64, 3e-3, patience=2, vocabulary=8000),
    "paper": preset(200, 20, 1e-3, patience=20, vocabulary=20_000, d_embedding=300, d_hidden=300),
}

LCR_ROT_HOP = classifying_texts(
    LcrRotConfig, LcrRotHop, card, PRESETS, builtin=aspects.dataset, task=ClassifyTargets(), data=rows.ASPECTS
)
# One rotation, as in LCR-Rot: what repeating it is compared with.
LCR_ROT_HOP_ONE = LCR_ROT_HOP.changed(hops=1)
