"""Reinforced bidirectional attention network, J14 (Wang, Sun, Li, Liu, Si, Zhang & Zhou 2019): a question about one
thing, an answer that speaks of several, and what is thought of that thing.

As the survey has it (BF §3.2.2 and Table 3), from the bottom: words, a bidirectional LSTM over either text, a sampler
for each that keeps words (reinforced alignment, as in Shen et al. 2018b), co-attention in both directions over those
that are kept, classes. Samplers learn by REINFORCE; what is not kept has no weight. Ours: each word of the answer is
read beside the average of the question, where the paper is given the aspect.
"""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from limelight_models.attention import Attention
from limelight_models.attention.align.reinforced import Selector
from limelight_models.attention.features import FineWeights, Parallel, Perceptron, TanhBilinear
from limelight_models.attention.flat import average
from limelight_models.attention.signals import reinforce_loss, selection_cost, selection_log_probability
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import Attends, Noise, maps_of, one
from limelight_models.data import aspects, rows
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny
from limelight_models.tasks.aspects import ClassifyTargets
from limelight_models.tasks.heads import Scores

SIDES = ("first", "second")


class RbanConfig(TextSizes):
    """Sizes. samplers: whether words are selected; without, attention is soft over all of them.

    soft: steps of training with all words, before samplers draw: they learn what is worth keeping from what has learned
    to read. start: log-odds of keeping a word then; 2 begins with nine of ten. price: what keeping every word costs.
    """

    samplers: bool = True
    soft: int = 500
    d_embedding: int = 64
    d_hidden: int = 48
    d_attention: int = 64
    start: float = 2.0
    price: float = 0.01
    dropout: float = 0.5
    max_tokens: int = 128


class Rban(Network):
    """A question about a thing and its answer -> classes, with the weights of the words of both.

    H^q = BiLSTM(x^q), H^a = BiLSTM([x^a; x̄^q; x^a ⊙ x̄^q]);  keep_j ~ Bernoulli(sigmoid(z_j)), z from H of each text
    A = tanh(H^qᵀ W H^a), c^q and c^a by a perceptron over it (BF eq. 12–15), among kept words;  v = [c^q; c^a]

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same, `<side>_noise` uniform
        in (0, 1) of the same where there are samplers -> logits [batch, class], maps `question` [batch, 1, 1, first],
        `answer` [batch, 1, 1, second], zeros where nothing was kept, `affinity` [batch, 1, first, second].
    """

    steps: Tensor

    def __init__(self, config: RbanConfig) -> None:
        super().__init__()
        self.config, size, d = config, config.d_embedding, 2 * config.d_hidden
        self.embedding = nn.Embedding(config.vocabulary, size, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.question = BiLstm(d_in=size, d_hidden=config.d_hidden)
        self.answer = BiLstm(d_in=3 * size, d_hidden=config.d_hidden)
        sides = SIDES if config.samplers else ()
        self.samplers = nn.ModuleDict(
            {side: Selector(d=d, d_hidden=config.d_attention, start=config.start) for side in sides}
        )
        self.attention = Parallel(
            attention=Attention(score=TanhBilinear(d_q=d, d_k=d)),
            aggregate=Perceptron(d_first=d, d_second=d, d_w=config.d_attention),
        )
        self.dropout = nn.Dropout(config.dropout)
        self.classify = Scores(d_in=2 * d, d_out=config.classes, dropout=config.dropout)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, **tensors: Tensor) -> Answer:
        masks = {side: tensors[f"{side}_mask"] for side in SIDES}
        asked, told = (self.dropout(self.embedding(tensors[f"{side}_ids"])) for side in SIDES)
        about = average(asked, masks["first"]).expand_as(told)
        states = {
            "first": self.question(asked, masks["first"]),
            "second": self.answer(torch.cat([told, about, told * about], -1), masks["second"]),
        }
        if self.training:
            self.steps += 1
        early = self.training and int(self.steps) <= self.config.soft
        kept, signals = dict(masks), dict[str, Tensor]()
        for side, sampler in () if early else self.samplers.items():
            odds = sampler(states[side].unsqueeze(1), masks[side][:, None, None])[:, 0, 0]
            drawn = tensors[f"{side}_noise"] < odds.sigmoid()
            kept[side] = masks[side] & drawn
            signals[f"log.{side}"] = selection_log_probability(drawn, odds, masks[side])
            signals[f"cost.{side}"] = selection_cost(drawn, masks[side])
        logits, weights = self.read(states, kept)
        maps = {"question": weights.first, "answer": weights.second, "affinity": weights.affinity}
        if not self.training or not signals:
            return Answer({"logits": logits}, maps)
        return Answer({"logits": logits}, maps, {**signals, "soft": self.read(states, masks)[0]})

    def read(self, states: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> tuple[Tensor, FineWeights]:
        """From the words that masks allow to scores of classes, and the weights."""
        vectors, weights = self.attention(*states.values(), *masks.values())
        return self.classify(torch.cat(vectors, -1)), weights

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Cross-entropy with the words that were drawn and with all of them; and for the samplers REINFORCE.

        The reward is the log-probability of the right class, less what keeping words costs (Shen et al. 2018b, eq.
        14–15), its baseline what the same instance gets with every word kept (after Rennie et al. 2017): it does not
        depend on the draw, and asks of each word whether the answer is the better for it.
        """
        if not answer.signals:
            return losses.sum()
        signals = answer.signals
        soft = cross_entropy(signals["soft"], target, reduction="none")
        drawn, cost = (torch.stack([signals[f"{what}.{side}"] for side in SIDES]).sum(0) for what in ("log", "cost"))
        price = self.config.price
        chosen = reinforce_loss(drawn, -losses - price * cost, -soft - price * len(SIDES))
        return (losses + soft).sum() / 2 + len(losses) * chosen


def card(network: Rban, blueprint: Blueprint[RbanConfig]) -> Card:
    """Describe the network."""
    config = network.config
    pair = blueprint.pair("A question about a thing, and the answer to it, which may speak of others too.")
    fits = "How well each word of the question fits each of the answer; it says which words are brought over."
    maps = {
        "question": Attends(one("question"), pair.first, "How much each word of the question counts.", kind="co"),
        "answer": Attends(one("answer"), pair.second, "How much each word of the answer counts.", kind="co"),
        "affinity": Attends(pair.first, pair.second, fits, kind="co"),
    }
    return blueprint.card(
        network,
        title="Reinforced bidirectional attention network",
        summary="Tells what an answer thinks of the thing that a question is about, by words that two samplers keep.",
        inputs=[pair],
        maps=maps_of(network.attention, maps),
        taxonomy="parallel co-attention, additive, specialised" + ", reinforced" * config.samplers,
        citation="Wang, Sun, Li, Liu, Si, Zhang, Zhou (2019): Aspect Sentiment Classification Towards "
        "Question-Answering with Reinforced Bidirectional Attention Network. ACL",
        noise=[Noise(name=f"{side}_noise", axes={side: 0}, most=config.max_tokens) for side in network.samplers],
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d_embedding=8, d_hidden=6, d_attention=6, dropout=0.0, soft=0),
    "demo": preset(10, 32, 4e-3, patience=3, vocabulary=500, d_embedding=24, d_hidden=16, d_attention=24, dropout=0.1),
    "full": preset(6, 64, 4e-3, patience=2, vocabulary=8000),
    # The surveys do not give the paper's sizes: these are those of LCR-Rot-hop's paper, which has the same task without
    # questions, with attention of the size of its states.
    "paper": preset(200, 20, 1e-3, patience=20, vocabulary=20_000, d_embedding=300, d_hidden=300, d_attention=300),
}

RBAN = classifying_texts(
    RbanConfig,
    Rban,
    card,
    PRESETS,
    builtin=partial(aspects.dataset, form="questions"),
    task=ClassifyTargets(),
    data=rows.ASPECT_QUESTIONS,
)
# Soft attention over all words: what keeping some of them is compared with.
RBAN_SOFT = RBAN.changed(samplers=False)
