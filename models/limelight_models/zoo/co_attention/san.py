"""Stacked attention network, K10 (Yang, He, Gao, Deng & Smola 2016): a question put to a picture, several times.

Fig. 1 of the paper, from the left: the picture as regions, the question as an LSTM has read it; attention layers, each
of which asks with what the ones before have found; the answer.
"""

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend
from limelight_models.attention.queries.transforms import AddContext
from limelight_models.attention.score import Additive
from limelight_models.blocks.cells import Cells
from limelight_models.cards.language import Attends, maps_of, one
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.answering import VqaConfig, answering, of_picture
from limelight_models.zoo.co_attention.vqa import Lstm, Words, last_word


class SanConfig(VqaConfig):
    """Sizes. The paper has 14 × 14 regions of VGGNet; its code has d 1024 and d_attention 512.

    hops: attention layers, one or two in the paper. around: how many cells further each region sees.
    """

    d_attention: int = 64
    hops: int = 2
    around: int = 2


class StackedAttention(Network):
    """A picture and a question -> an answer, with the weights of the regions in every attention layer.

    v_I = tanh(W_I f_I + b_I) for each region (§3.1);  v_Q = h_T, the LSTM's last state (§3.2);  u⁰ = v_Q
    h_A = tanh(W_I,A v_I ⊕ (W_Q,A u^{k-1} + b_A));  p_I = softmax(W_P h_A + b_P)
    ṽ_I = Σ_i p_i v_i;  u^k = ṽ_I + u^{k-1};  logits = W_u u^K + b_u (§3.3)
    ⊕ adds the question to every region. b_P, the same for every region, is left out: softmax does not see it

    Shapes: pixels [batch, 1, row, column], question_ids int64 [batch, word], question_mask bool -> logits [batch,
        class], maps `hop.<layer>` [batch, 1, 1, region].
    """

    def __init__(self, config: SanConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.regions, self.words, self.reader = config.regions(config.around), Words(config), Lstm(d)
        self.look = nn.Linear(d, d)
        self.hops = nn.ModuleList(
            Attention(score=Additive(d_q=d, d_k=d, d_w=config.d_attention)) for _ in range(config.hops)
        )
        self.refine, self.dropout = AddContext(), nn.Dropout(config.dropout)
        self.classify = nn.Linear(d, config.classes)

    @property
    def cells(self) -> Cells:
        """The eye."""
        return self.regions.cells

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["question_mask"]
        regions = torch.tanh(self.look(self.dropout(self.regions(tensors["pixels"]))))
        asked = last_word(self.reader(self.words(tensors["question_ids"], mask), mask), mask)
        maps: dict[str, Tensor] = {}
        for number, hop in enumerate(self.hops):
            found, maps[f"hop.{number}"] = attend(hop, asked, regions)
            asked = self.refine(asked, found)
        return Answer({"logits": self.classify(self.dropout(asked.squeeze(1)))}, maps)


def card(network: StackedAttention, blueprint: Blueprint[SanConfig]) -> Card:
    """Describe the network."""
    config = network.config
    picture, question = config.picture(), config.question(blueprint.tokenizer())
    cells = of_picture(picture, network.regions)
    about = "How much each region counts in attention layer {}, which asks with what those before have found."
    return blueprint.card(
        network,
        title="Stacked attention network",
        summary="Answers questions about pictures by looking at their regions several times, one after the other.",
        inputs=[picture, question],
        maps=maps_of(network.hops, {"hop.{}": Attends(one("answer"), cells, about, kind="cross")}),
        taxonomy="additive, multi-hop" if config.hops > 1 else "additive",
        citation="Yang, He, Gao, Deng, Smola (2016): Stacked Attention Networks for Image Question Answering. CVPR",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, channels=(4, 6, 8), d=8, d_attention=6, around=1),
    "demo": preset(12, 32, 1e-3, vocabulary=500, taught=True),
    "full": preset(20, 32, 1e-3, patience=5, vocabulary=8000, d=96, d_attention=96, dropout=0.3),
    # Of the authors' code; Adam is in the place of descent with momentum.
    "paper": preset(50, 100, 4e-4, weight_decay=0.0, patience=5, clip=10.0, vocabulary=15_000).sized(
        d=1024, d_attention=512, dropout=0.5
    ),
}

SAN = answering(SanConfig, StackedAttention, card, PRESETS)
# What the paper compares it with: a single attention layer.
SAN_ONE = SAN.changed(hops=1)
