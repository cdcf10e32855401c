"""Decomposable attention, K9 (Parikh, Täckström, Das & Uszkoreit 2016): two sentences compared word by word.

Fig. 1 of the paper, from the left: each word attends to the words of the other sentence, is compared with what it found
there, and the comparisons of a sentence are summed up; neither recurrence nor, without attention within a sentence, the
order of words. Ours: no word stands for nothing in front of a sentence (§5.1).
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.score import Score
from limelight_models.cards.maps import Attends, Map, maps_of
from limelight_models.data import inference, rows
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny

SIDES = ("first", "second")


class DecomposableConfig(TextSizes):
    """Sizes. The paper has d_embedding 300 (GloVe, fixed), d 200.

    within: whether words also attend within their sentence (§3.4). reach: distances beyond it are one, 10 in the paper.
    """

    within: bool = False
    reach: int = 10
    d_embedding: int = 64
    d: int = 64
    dropout: float = 0.2
    max_tokens: int = 64


def feed_forward(d_in: int, d: int, dropout: float) -> nn.Sequential:
    """The networks F, G and H of the paper: two layers, each behind dropout, with relu after each."""
    return nn.Sequential(*(nn.Sequential(nn.Dropout(dropout), nn.Linear(size, d), nn.ReLU()) for size in (d_in, d)))


class Shared(Score):
    """Both sides go through the same network and meet in a product (paper eq. 1).

    e_ij = F(a_i)ᵀ F(b_j)

    Shapes: query [batch, head, query, d_in], key [batch, head, key, d_in] -> [batch, head, query, key].
    """

    needs_equal_sizes = True

    def __init__(self, *, d_in: int, d: int, dropout: float) -> None:
        super().__init__()
        self.d_q = self.d_k = d_in
        self.network = feed_forward(d_in, d, dropout)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float] | None:
        return self.network(query), self.network(key), 1.0

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        return self.network(query) @ self.network(key).transpose(-2, -1)


class Distant(Shared):
    """The same with a number for each distance: f_ij = F_intra(a_i)ᵀ F_intra(a_j) + d_{i-j} (paper §3.4).

    Distances from -reach to reach have one each; all farther ones, before and behind, share one more.
    """

    def __init__(self, *, d_in: int, d: int, dropout: float, reach: int) -> None:
        super().__init__(d_in=d_in, d=d, dropout=dropout)
        self.reach = reach
        self.distance = nn.Parameter(torch.zeros(2 * reach + 2))  # the last for what is farther

    def as_dot(self, query: Tensor, key: Tensor) -> None:
        return None

    def forward(self, query: Tensor, key: Tensor, context: Context) -> Tensor:
        scores = super().forward(query, key, context)
        rows_, columns = context.positions(scores)
        away = rows_ - columns
        return scores + self.distance[torch.where(away.abs() > self.reach, self.reach + 1, away) + self.reach]


class DecomposableAttention(Network):
    """Two sentences -> classes of the pair, with the weights of each word over the other sentence.

    e_ij = F(a_i)ᵀ F(b_j) (eq. 1);  β_i = Σ_j softmax_j(e_ij) b_j, α_j = Σ_i softmax_i(e_ij) a_i (eq. 2)
    v1_i = G([a_i; β_i]), v2_j = G([b_j; α_j]) (eq. 3);  v1 = Σ_i v1_i, v2 = Σ_j v2_j (eq. 4, 5);  y = H([v1; v2])
    Within a sentence: a_i becomes [a_i; a'_i], a'_i = Σ_j softmax_j(f_ij) a_j (§3.4)

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same -> logits [batch, class],
        maps `first.cross` [batch, 1, first, second], `second.cross` [batch, 1, second, first], and within a sentence
        `<side>.self` [batch, 1, token, token].
    """

    def __init__(self, config: DecomposableConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.project = nn.Linear(config.d_embedding, d, bias=False)
        size = 2 * d if config.within else d
        within = Distant(d_in=d, d=d, dropout=config.dropout, reach=config.reach) if config.within else None
        self.within = None if within is None else Attention(score=within)
        self.attention = Attention(score=Shared(d_in=size, d=d, dropout=config.dropout))
        self.compare = feed_forward(2 * size, d, config.dropout)
        self.classify = nn.Sequential(feed_forward(2 * d, d, config.dropout), nn.Linear(d, config.classes))

    def forward(self, **tensors: Tensor) -> Answer:
        masks = {side: tensors[f"{side}_mask"] for side in SIDES}
        words = {side: self.project(self.embedding(tensors[f"{side}_ids"])) for side in SIDES}
        maps = dict[str, Tensor]()
        real = {side: mask[:, None, :, None] for side, mask in masks.items()}  # padding asks for nothing
        if self.within is not None:
            for side, own in words.items():
                around, weights = attend(self.within, own, own, None, over_keys(masks[side]))
                words[side], maps[f"{side}.self"] = torch.cat([own, around], -1), weights * real[side]
        compared = []
        for side, other in (SIDES, SIDES[::-1]):
            found, weights = attend(self.attention, words[side], words[other], None, over_keys(masks[other]))
            maps[f"{side}.cross"] = weights * real[side]
            pairs = self.compare(torch.cat([words[side], found], -1))
            compared.append((pairs * masks[side].unsqueeze(-1)).sum(1))
        return Answer({"logits": self.classify(torch.cat(compared, -1))}, maps)


def card(network: DecomposableAttention, blueprint: Blueprint[DecomposableConfig]) -> Card:
    """Describe the network."""
    config = network.config
    summary = "Two sentences: what is given (the premise), and what is asked about it (the hypothesis)."
    pair = blueprint.pair(summary)
    sides = {"first": (pair.first, pair.second), "second": (pair.second, pair.first)}
    maps = dict[str, Map]()
    if network.within is not None:
        for side, (own, _) in sides.items():
            about = f"How much each word of the {side} sentence looks at those of its own."
            maps |= maps_of(network.within, {f"{side}.self": Attends(own, own, about)})
    for side, (own, other) in sides.items():
        about = f"How well each word of the {side} sentence fits those of the other."
        maps |= maps_of(network.attention, {f"{side}.cross": Attends(own, other, about)})
    return blueprint.card(
        network,
        title="Decomposable attention" + (", with attention within sentences" if config.within else ""),
        summary="Tells how two sentences are related: each word is compared with those of the other that fit it.",
        inputs=[pair],
        maps=maps,
        taxonomy="parallel co-attention, multiplicative, " + "self-attentive, " * config.within + "specialised",
        citation="Parikh, Täckström, Das, Uszkoreit (2016): A Decomposable Attention Model for Natural Language "
        "Inference. EMNLP",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d=8, dropout=0.0, reach=3),
    "demo": preset(6, 32, 4e-3, patience=2, vocabulary=500, d_embedding=32, d=32, dropout=0.1),
    "full": preset(8, 32, 2e-3, patience=2, vocabulary=8000),
    # The sizes of §5.1, with Adam in the place of Adagrad. Their words are GloVe's, and stay as they are.
    "paper": preset(50, 32, 1e-3, patience=10, vocabulary=40_000, d_embedding=300, d=200),
}

DECOMPOSABLE_ATTENTION = classifying_texts(
    DecomposableConfig, DecomposableAttention, card, PRESETS, builtin=inference.dataset, data=rows.TEXT_PAIRS
)
# What the paper adds to it: attention within each sentence, which knows how far words are apart.
DECOMPOSABLE_ATTENTION_WITHIN = DECOMPOSABLE_ATTENTION.changed(within=True)
