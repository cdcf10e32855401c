"""Deep memory network with places, R3 (Tang, Qin & Liu 2016): words near a target have more of a say about it.

Fig. 1 of the paper: the words around a target are a memory, which each hop weighs by the target and what was found so
far. Before anything is scored, each word is made less, or another, by how far it stands from the target (§3.4).
"""

from functools import partial

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.flat import attend, average, over_keys
from limelight_models.attention.scoring import Score
from limelight_models.cards.language import map_of, numbered
from limelight_models.cards.parts import PARTS, parts_of
from limelight_models.data import aspects, rows
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny
from limelight_models.tasks.aspects import ClassifyTargets
from limelight_models.tasks.heads import Scores

AROUND = ("left", "right")


class DeepMemoryConfig(TextSizes):
    """Sizes. The paper has d 300 (GloVe, kept as it is) and up to 9 hops.

    place: what distance does to a word: `near` multiplies it by a number (model 2 of the paper), `features` by a number
    for each feature (1), `gate` by a vector that is learned for the distance (4), `none` leaves it.
    """

    place: str = "near"
    hops: int = 3
    d: int = 64
    dropout: float = 0.3
    max_tokens: int = 96


class Fitting(Score):
    """e_i = tanh(W_att [m_i; v] + b_att), one number (§3.3).

    Shapes: query [batch, head, query, d], key [batch, head, key, d] -> scores [batch, head, query, key].
    """

    def __init__(self, *, d: int) -> None:
        super().__init__()
        self.d_q, self.d_k, self.of_query, self.of_key = d, d, nn.Linear(d, 1), nn.Linear(d, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return torch.tanh(self.of_query(query) + self.of_key(key).transpose(-2, -1))


class Placed(nn.Module):
    """Words as they are remembered, l of n words away from the target (§3.4).

    near: (1 - l/n) x;  features: ((1 - l/n) - (k/d)(1 - 2 l/n)) x^k, k = 1 … d;  gate: x ⊙ σ(v_l)

    Shapes: words [batch, word, d], away int64 [batch, word], from 1, length [batch, 1] -> as words.
    """

    def __init__(self, config: DeepMemoryConfig) -> None:
        super().__init__()
        self.place = config.place
        if config.place == "gate":
            self.vectors = nn.Embedding(config.max_tokens + 1, config.d)
            nn.init.normal_(self.vectors.weight, std=0.1)

    def forward(self, words: Tensor, away: Tensor, length: Tensor) -> Tensor:
        share = (away.to(words.dtype) / length).unsqueeze(-1)
        if self.place == "near":
            return words * (1 - share)
        if self.place == "features":
            feature = torch.arange(1, words.shape[-1] + 1, dtype=words.dtype, device=words.device) / words.shape[-1]
            return words * ((1 - share) - feature * (1 - 2 * share))
        return words * self.vectors(away).sigmoid() if self.place == "gate" else words


class DeepMemory(Network):
    """A sentence's opinion about a target in it -> classes, with the weights of every hop.

    v¹ the average of the target's words;  α^h = softmax_i(e_i^h), of m_i and v^h;  v^{h+1} = Σ_i α_i^h m_i + W v^h + b
    logits = W' v^{H+1} + b'; all hops have the same parameters (§3.2)

    Shapes: left_ids, target_ids, right_ids int64 [batch, position], masks bool of the same -> logits [batch, class],
        maps `left` and `right` [batch, 1, hop, position], which together sum to 1.
    """

    def __init__(self, config: DeepMemoryConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocabulary, config.d, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.3)
        self.dropout = nn.Dropout(config.dropout)
        self.placed = Placed(config)
        self.attention = Attention(score=Fitting(d=config.d))
        self.on = nn.Linear(config.d, config.d)
        self.classify = Scores(d_in=config.d, d_out=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        masks = {part: tensors[f"{part}_mask"] for part in PARTS}
        count = {part: mask.sum(1, keepdim=True) for part, mask in masks.items()}
        left, right = (torch.arange(masks[part].shape[1], device=masks[part].device) for part in AROUND)
        away = torch.cat([(count["left"] - left).clamp(min=0), (right + 1).expand_as(masks["right"])], 1)
        words = torch.cat([self.words(tensors[f"{part}_ids"]) for part in AROUND], 1)
        memory = self.placed(self.dropout(words), away, torch.stack(list(count.values())).sum(0).clamp(min=1))
        vector = average(self.words(tensors["target_ids"]), masks["target"])
        there, looks = over_keys(torch.cat([masks[part] for part in AROUND], 1)), []
        for _ in range(self.config.hops):
            found, weights = attend(self.attention, vector, memory, None, there)
            vector = found + self.on(vector)
            looks.append(weights)
        looked, end = torch.cat(looks, 2), masks["left"].shape[1]
        maps = {"left": looked[..., :end], "right": looked[..., end:]}
        return Answer({"logits": self.classify(vector.squeeze(1))}, maps)


def card(network: DeepMemory, blueprint: Blueprint[DeepMemoryConfig]) -> Card:
    """Describe the network."""
    config = network.config
    parts = parts_of(blueprint.tokenizer(), max_tokens=config.max_tokens)
    hops, about = numbered("hops", "hops", "hop", config.hops), "In each hop, how much each word {} counts for it."
    weigh = partial(map_of, network.attention, "memory", queries=hops, part=True)
    maps = {part: weigh(keys=parts[part].tokens(part), summary=about.format(PARTS[part])) for part in AROUND}
    return blueprint.card(
        network,
        title="Deep memory network",
        summary="Tells what a sentence says of a target in it, by looks at words that count as they are near.",
        inputs=list(parts.values()),
        maps=maps,
        taxonomy="concat, specialised, multi-hop",
        citation="Tang, Qin, Liu (2016): Aspect Level Sentiment Classification with Deep Memory Network. EMNLP",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, hops=2, d=8, dropout=0.0),
    "demo": preset(12, 32, 4e-3, patience=3, vocabulary=500, d=32, dropout=0.1),
    "full": preset(8, 64, 3e-3, patience=2, vocabulary=8000),
    # The sizes of §4.1, with Adam in the place of plain descent.
    "paper": preset(100, 20, 1e-3, patience=20, vocabulary=20_000, hops=9, d=300, dropout=0.0),
}

DEEP_MEMORY = classifying_texts(
    DeepMemoryConfig, DeepMemory, card, PRESETS, builtin=aspects.dataset, task=ClassifyTargets(), data=rows.ASPECTS
)
# The paper's other ways to tell places, and none.
DEEP_MEMORY_FEATURES, DEEP_MEMORY_GATE = (DEEP_MEMORY.changed(place=each) for each in ("features", "gate"))
DEEP_MEMORY_NONE = DEEP_MEMORY.changed(place="none")
