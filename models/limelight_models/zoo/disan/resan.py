"""ReSAN, reinforced self-attention network, L15 (Shen, Zhou, Long, Jiang, Wang & Zhang 2018b): two sentences compared.

Fig. 1 of the paper, from the bottom: words; two samplers that choose, side by side, which tokens look (heads) and which
are looked at (dependents); self-attention, feature by feature, among those; a gate that fuses it with the token;
source2token attention. Samplers learn by REINFORCE. Weights are as many as all pairs of tokens, however few are chosen.
Ours: a head that is not chosen finds nothing, where the authors' code gives it the average of the others, and has a
second attention that looks the other way; the reward has a baseline, what the same pair gets with every token, whose
loss counts too; and both sentences have one reward, of which the price is that of the share of tokens chosen, where the
code rewards each by itself and has the price of the share of pairs.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from limelight_models.attention.align.reinforced import Selector
from limelight_models.attention.signals import reinforce_loss, selection_cost, selection_log_probability
from limelight_models.blocks.comparison import both, comparison
from limelight_models.blocks.reinforced import Chosen, ReinforcedSelfAttention
from limelight_models.cards.language import Attends, Map, Noise, maps_of, one
from limelight_models.data import inference, rows
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, TextSizes, classifying_texts, preset, tiny
from limelight_models.tasks.task import UNKNOWN

SIDES = ("first", "second")


class ResanConfig(TextSizes):
    """Sizes. The paper has d 300 for words (GloVe) and features alike, and d_compare 300.

    samplers: whether tokens are selected; without, every token looks at every other. soft: steps of training with all
    tokens, before samplers draw. start: log-odds of choosing a token then; 2 begins with nine of ten. price: what
    choosing every token costs.
    """

    samplers: bool = True
    soft: int = 500
    d: int = 48
    d_compare: int = 96
    start: float = 2.0
    price: float = 0.01
    dropout: float = 0.3
    max_tokens: int = 64


class Resan(Network):
    """Two sentences -> classes of the pair, with the weights of each sentence's encoding.

    choose_i ~ Bernoulli(sigmoid(z_i)) for heads, and for dependents with another z (paper §3, eq. 8–9)
    logits = W relu(W' [s¹; s²; s¹ - s²; s¹ ⊙ s²])

    Shapes: first_ids int64 [batch, first], second_ids [batch, second], masks bool of the same, where there are samplers
        `<side>_<heads or dependents>_noise` uniform in (0, 1) of the same -> logits [batch, class], maps `<side>.self`
        [batch, 1, token, token, d] and `<side>.source` [batch, 1, 1, token, d].
    """

    steps: Tensor

    def __init__(self, config: ResanConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.embedding = nn.Embedding(config.vocabulary, d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.dropout = nn.Dropout(config.dropout)
        kinds = Chosen._fields if config.samplers else ()
        self.samplers = nn.ModuleDict({kind: Selector(d=d, d_hidden=d, start=config.start) for kind in kinds})
        self.encoder = ReinforcedSelfAttention(d=d, dropout=config.dropout)
        self.compare = comparison(d, hidden=config.d_compare, classes=config.classes, dropout=config.dropout)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, **tensors: Tensor) -> Answer:
        valid = {side: tensors[f"{side}_mask"] for side in SIDES}
        words = {side: self.dropout(self.embedding(tensors[f"{side}_ids"])) for side in SIDES}
        if self.training:
            self.steps += 1
        early = self.training and int(self.steps) <= self.config.soft
        every = {side: Chosen(mask, mask) for side, mask in valid.items()}
        chosen, logs, costs = dict(every), list[Tensor](), list[Tensor]()
        for side, mask in () if early else valid.items():
            for kind, sampler in self.samplers.items():
                odds = sampler(words[side].unsqueeze(1), mask[:, None, None])[:, 0, 0]
                drawn = tensors[f"{side}_{kind}_noise"] < odds.sigmoid()
                chosen[side] = chosen[side]._replace(**{kind: mask & drawn})
                logs.append(selection_log_probability(drawn, odds, mask))
                costs.append(selection_cost(drawn, mask))
        logits, maps = self.read(words, valid, chosen)
        if not self.training or not logs:
            return Answer({"logits": logits}, maps)
        signals = {"log": torch.stack(logs).sum(0), "cost": torch.stack(costs).mean(0)}
        return Answer({"logits": logits}, maps, {**signals, "soft": self.read(words, valid, every)[0]})

    def read(
        self, words: Mapping[str, Tensor], valid: Mapping[str, Tensor], chosen: Mapping[str, Chosen]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """From words and those that are chosen to scores of classes, and the weights."""
        vectors, maps = [], dict[str, Tensor]()
        for side in SIDES:
            vector, around, counts = self.encoder(words[side], valid[side], chosen[side])
            vectors.append(vector)
            maps |= {f"{side}.self": around, f"{side}.source": counts}
        first, second = vectors
        return self.compare(both(first, second)), maps

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Cross-entropy with the tokens that were drawn and with all of them; and for the samplers REINFORCE.

        Their reward is the log-probability of the right class, less the price of what was chosen (paper §5); only what
        it is more than that of choosing all of them counts.
        """
        if not answer.signals:
            return losses.sum()
        signals, price = answer.signals, self.config.price
        soft = cross_entropy(signals["soft"], target, reduction="none", ignore_index=UNKNOWN)
        chosen = reinforce_loss(signals["log"], -losses - price * signals["cost"], -soft - price)
        return (losses + soft).sum() / 2 + len(losses) * chosen


def card(network: Resan, blueprint: Blueprint[ResanConfig]) -> Card:
    """Describe the network."""
    config, samplers = network.config, network.samplers
    pair = blueprint.pair("Two sentences: what is given (the premise), and what is asked about it (the hypothesis).")
    among = "tokens that samplers choose" if samplers else "all of its tokens"
    maps = dict[str, Map]()
    for side, tokens in zip(SIDES, (pair.first, pair.second), strict=True):
        about = f"in the {side} sentence, feature by feature"
        others = "those chosen" if samplers else "each other"
        around = Attends(tokens, tokens, f"How much each token takes of {others} {about}.", features=config.d)
        counts = Attends(one(f"{side} sentence"), tokens, f"How much each token counts {about}.", features=config.d)
        maps |= maps_of(network.encoder.attention, {f"{side}.self": around})
        maps |= maps_of(network.encoder.source, {f"{side}.source": counts})
    return blueprint.card(
        network,
        title="Reinforced self-attention network",
        summary=f"Tells how two sentences are related, each encoded by attention among {among}.",
        inputs=[pair],
        maps=maps,
        taxonomy="additive, multi-dimensional, self-attentive" + ", reinforced" * bool(samplers),
        citation="Shen, Zhou, Long, Jiang, Wang, Zhang (2018): Reinforced Self-Attention Network: a Hybrid of Hard "
        "and Soft Attention for Sequence Modeling. IJCAI",
        noise=[
            Noise(name=f"{s}_{kind}_noise", axes={s: 0}, most=config.max_tokens) for s in SIDES for kind in samplers
        ],
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d=8, d_compare=8, dropout=0.0, soft=0, start=0.0),
    "demo": preset(6, 32, 4e-3, patience=3, vocabulary=500, d=16, d_compare=32, dropout=0.1),
    "full": preset(8, 32, 2e-3, patience=3, vocabulary=8000),
    # The sizes of the paper, with Adam in the place of Adadelta. Its words are GloVe's.
    "paper": preset(50, 64, 1e-3, weight_decay=5e-5, patience=10, vocabulary=40_000).sized(
        d=300, d_compare=300, dropout=0.25
    ),
}

RESAN = classifying_texts(ResanConfig, Resan, card, PRESETS, builtin=inference.dataset, data=rows.TEXT_PAIRS)
# Every token looks at every other: what choosing some of them is compared with.
RESAN_SOFT = RESAN.changed(samplers=False)
