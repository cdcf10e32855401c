"""Diversity LSTM, K23 (Mohankumar, Nema, Narasimhan, Khapra, Srinivasan & Ravindran 2020): states that differ.

§2 and §4 of the paper: words, an LSTM, attention over its states, classes. Where the states of all words are alike,
their weights say little; so how alike they are, the conicity, is added to the loss (§4.2); or each state is made
orthogonal to those before (§4.1, the Orthogonal LSTM; checked with the authors' code). Conicity can be low though
states are alike, where few long ones point away from many short; so their cosines, pair by pair, are measured too.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

from limelight_models.attention import Attention
from limelight_models.attention.flat import average
from limelight_models.attention.queries.pool import SelfAttentivePool
from limelight_models.attention.score import SelfAttentive
from limelight_models.cards.by_example import mean
from limelight_models.cards.card import Metric
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.data import docstrings
from limelight_models.data.dataset import Example
from limelight_models.in_turn import Tensors, in_turn
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny
from limelight_models.tasks.classify import Classify
from limelight_models.tasks.heads import Scores
from limelight_models.tasks.task import HeldOut, answers


class DiversityConfig(TextSizes):
    """Sizes. The paper has d_embedding 300 and d_hidden 128.

    diversity: weight λ of conicity in the loss. orthogonal: whether the LSTM makes its states orthogonal.
    """

    d_embedding: int = 64
    d_hidden: int = 64
    d_attention: int = 32
    dropout: float = 0.4
    diversity: float = 0.5
    orthogonal: bool = False
    max_tokens: int = 512


class OrthogonalLstm(nn.Module):
    """An LSTM of which each state is orthogonal to the mean of those before it, by Gram–Schmidt (§4.1).

    ĥ_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1});  m_t = Σ_{s<t} h_s;  h_t = ĥ_t - (ĥ_tᵀ m_t / m_tᵀ m_t) m_t

    A sum says the same as a mean; h_1 is ĥ_1. Steps run one after the other, and take longer than an `nn.LSTM`'s.

    Shapes: x [batch, token, d_in] -> states [batch, token, d], in a tuple, where `nn.LSTM` has its last ones too.
    """

    def __init__(self, d_in: int, d: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(d_in, d)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
            state, cell, total = left
            made, cell = self.cell(now, (state, cell))
            square = total.square().sum(-1, keepdim=True).clamp(min=torch.finfo(total.dtype).tiny)
            state = made - (made * total).sum(-1, keepdim=True) / square * total
            return (state, cell, total + state), (state,)

        zeros = x.new_zeros(x.shape[0], self.cell.hidden_size)
        (states,) = in_turn(step, (zeros, zeros.clone(), zeros.clone()), x)
        return (states.transpose(0, 1),)


class DiversityLstm(Network):
    """Text -> classes, with the weights of its words.

    h_t = LSTM(x_t, h_{t-1}), or that of `OrthogonalLstm`;  a_t = softmax_t(vᵀ tanh(W h_t + b));  c = Σ_t a_t h_t (§2.1)
    loss = - log p(y) + λ conicity(H) (§4.2)

    Shapes: token_ids int64 [batch, token], token_mask bool of the same -> logits [batch, class],
        map `pool` [batch, 1, 1, token].
    """

    def __init__(self, config: DiversityConfig) -> None:
        super().__init__()
        self.config, d = config, config.d_hidden
        self.embedding = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = nn.Dropout(config.dropout)
        size = config.d_embedding
        self.encoder = OrthogonalLstm(size, d) if config.orthogonal else nn.LSTM(size, d, batch_first=True)
        self.pool = SelfAttentivePool(attention=Attention(score=SelfAttentive(d_k=d, d_w=config.d_attention)))
        self.classify = Scores(d_in=d, d_out=config.classes, dropout=config.dropout)

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["token_mask"]
        # The LSTM reads onward, so that real states know nothing of the padding behind them.
        states = self.encoder(self.dropout(self.embedding(tensors["token_ids"])))[0] * mask.unsqueeze(-1)
        found, weights = self.pool(states, mask=mask)
        signals = {"conicity": conicity(states, mask), "cosine": pairwise_cosine(states, mask)}
        return Answer({"logits": self.classify(found)}, {"pool": weights}, signals)

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Cross-entropy and conicity (§4.2)."""
        return losses.sum() + self.config.diversity * answer.signals["conicity"].sum()


def conicity(states: Tensor, mask: Tensor) -> Tensor:
    """Conicity, the similarity of states: the mean cosine of each with their average (§2.3).

    1 where all point the same way; below 0 where few long states outweigh many short ones.

    Shapes: states [batch, token, d], mask [batch, token] -> [batch].
    """
    alike = cosine_similarity(states, average(states, mask), dim=-1)
    return (alike * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def pairwise_cosine(states: Tensor, mask: Tensor) -> Tensor:
    """The mean cosine of two states: no length of one hides how the others point. 0 where there are no two.

    Shapes: states [batch, token, d], mask [batch, token] -> [batch].
    """
    unit, count = normalize(states, dim=-1) * mask.unsqueeze(-1), mask.sum(-1)
    pairs = unit.sum(1).square().sum(-1) - unit.square().sum((1, 2))  # each pair twice
    return pairs / (count * (count - 1)).clamp(min=1)


class ClassifyByStates(Classify):
    """Classes, and how alike the states are by which they are told."""

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Accuracy, and the mean conicity and the mean pairwise cosine of the held-out texts."""
        alike: dict[str, dict[int, float]] = {"conicity": {}, "cosine": {}}
        for batch, answer in answers(network, held_out):
            for signal, each in alike.items():
                each |= zip(batch.indices, answer.signals[signal].tolist(), strict=True)
        names = {"conicity": "conicity", "cosine": "pairwise cosine"}
        own = [Metric.over(mean(each), name=names[signal]) for signal, each in alike.items()]
        return [*super().judge(network, card, held_out, training), *own]


def card(network: DiversityLstm, blueprint: Blueprint[DiversityConfig]) -> Card:
    """Describe the network."""
    text = blueprint.text("A text, such as a sentence or a review.")
    return blueprint.card(
        network,
        title="Diversity LSTM",
        summary="Classifies a text by an LSTM whose states differ, so that the weights of its words say what it read.",
        inputs=[text],
        maps=maps_of(network.pool, {"pool": Attends(one("text"), text.tokens(), "How much each word counts.")}),
        taxonomy="additive, self-attentive",
        citation="Mohankumar, Nema, Narasimhan, Khapra, Srinivasan, Ravindran (2020): Towards Transparent and "
        "Explainable Attention Models. ACL",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, d_attention=6, dropout=0.1),
    "demo": preset(8, 16, 4e-3, patience=3, vocabulary=3000).sized(
        d_embedding=32, d_hidden=32, d_attention=16, max_tokens=128
    ),
    "full": preset(6, 32, 3e-3, patience=2, vocabulary=8000),
    "paper": preset(8, 32, 1e-3, weight_decay=1e-5, patience=8, vocabulary=20_000).sized(
        d_embedding=300, d_hidden=128, d_attention=64
    ),
}

DIVERSITY_LSTM = classifying_texts(
    DiversityConfig, DiversityLstm, card, PRESETS, builtin=docstrings.texts, task=ClassifyByStates()
)
# The same LSTM without conicity in its loss; and the paper's other model, whose cell sees to it (§4.1).
DIVERSITY_LSTM_PLAIN = DIVERSITY_LSTM.changed(diversity=0.0)
DIVERSITY_LSTM_ORTHOGONAL = DIVERSITY_LSTM.changed(diversity=0.0, orthogonal=True)
