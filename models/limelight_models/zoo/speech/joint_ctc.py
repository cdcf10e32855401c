"""Joint CTC–attention, R21 (Kim, Hori & Watanabe 2017).

Figure 2 of the paper: one encoder listens; connectionist temporal classification names each of its steps, and learns
alignments that go onward alone; a decoder with location-aware attention looks at the same steps and spells. Both teach
the encoder. What spells in the end is the decoder, and what CTC says of each step is told beside it.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import ctc_loss

from limelight.v1 import model_pb2, values_pb2
from limelight_models.attention.score import LocationAware
from limelight_models.blocks.recurrent import BiLstm
from limelight_models.cards.language import NEVER
from limelight_models.network import Answer
from limelight_models.recipes import Blueprint, Card, Preset, preset, tiny
from limelight_models.recipes.transcribing import transcribing
from limelight_models.zoo.speech.speller import Speller, SpellerConfig, parts

BLANK = 0  # of CTC: the id of padding, which is no letter


class JointCtcConfig(SpellerConfig):
    """Sizes. The paper has d_encoder and d_decoder 320, 4 layers of which the last 2 read every second step of the one
    below, 10 filters of width 100, and λ = 0.2.

    layers, halving: of the encoder, and how many of them read every second step. share: λ, of CTC in what is learned.
    """

    layers: int = 2
    halving: int = 1
    filters: int = 10
    width: int = 15
    share: float = 0.2

    @property
    def joined(self) -> int:
        return 2**self.halving


class Encoder(nn.Module):
    """Stacked BLSTMs, the last of which read every second step (paper §4.1).

    Shapes: x [batch, frame, mel], mask [batch, frame] -> h [batch, u, 2 d_encoder], mask [batch, u].
    """

    def __init__(self, config: JointCtcConfig) -> None:
        super().__init__()
        d = 2 * config.d_encoder
        sizes = (config.mels, *(d for _ in range(config.layers - 1)))
        self.layers = nn.ModuleList(BiLstm(d_in=size, d_hidden=config.d_encoder) for size in sizes)
        self.whole = config.layers - config.halving
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        for number, layer in enumerate(self.layers):
            every = 2 if number >= self.whole else 1
            x, mask = x[:, ::every], mask[:, ::every]
            x = layer(self.dropout(x) if number else x, mask)
        return x, mask


class JointCtc(Speller):
    """L = λ L_CTC + (1 - λ) L_attention (paper §3).

    P_CTC(y | x) = Σ_π Π_t P(π_t | h_t), over the paths π that are y without repeats and blanks

    Shapes: as `Speller`, and `ctc` [batch, u, letter], log P(π_t | h_t), letter 0 being the blank.
    """

    def __init__(self, config: JointCtcConfig) -> None:
        d, d_context = config.d_decoder, 2 * config.d_encoder
        located = LocationAware(
            d_q=d, d_k=d_context, d_w=config.d_attention, filters=config.filters, width=config.width
        )
        super().__init__(config, score=located)
        self.share = config.share
        self.encoder = Encoder(config)
        self.ctc = nn.Linear(d_context, config.vocabulary)
        self.decoder = nn.LSTMCell(config.d_embedding + d_context, d)
        self.scores = nn.Linear(d, config.vocabulary)

    @property
    def carried(self) -> tuple[str, ...]:
        return "state", "cell"

    def listen(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        heard: tuple[Tensor, Tensor] = self.encoder(x, mask)
        return heard

    def begin(self, h: Tensor) -> Mapping[str, Tensor]:
        return dict.fromkeys(self.carried, h.new_zeros(h.shape[0], self.config.d_decoder))

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """As every speller, and what CTC says; nothing behind the last frame that is heard."""
        encoded = super().encode(**tensors)
        said = self.ctc(encoded["heard"]).log_softmax(-1)
        nothing = NEVER * (torch.arange(said.shape[-1], device=said.device) != BLANK).to(said.dtype)
        return {**encoded, "ctc": torch.where(encoded["heard_mask"].unsqueeze(-1), said, nothing)}

    def spell(self, y: Tensor, known: Mapping[str, Tensor]) -> tuple[Tensor, Mapping[str, Tensor], Tensor]:
        """r_l = Σ_t a_{lt} h_t, a_l = LocationAttention(a_{l-1}, q_{l-1}, h);  q_l = LSTM(q_{l-1}, [c_{l-1}; r_l]);
        P(c_l | c_{<l}, X) = softmax(W q_l + b)."""
        r, weights = self.look(known["state"], known)
        q, cell = self.decoder(self.dropout(torch.cat([y, r], -1)), (known["state"], known["cell"]))
        return self.scores(self.dropout(q)), {"state": q, "cell": cell}, weights

    def forward(self, **tensors: Tensor) -> Answer:
        known = self.encode(**tensors)
        answer = self.spelled(known, tensors["target_ids"])
        outputs, target = {**answer.outputs, "ctc": known["ctc"]}, tensors["target_mask"]
        if not self.training:
            return replace(answer, outputs=outputs)
        letters = target & (tensors["target_ids"] != self.config.end)
        losses = ctc_loss(
            known["ctc"].transpose(0, 1),
            tensors["target_ids"],
            known["heard_mask"].sum(1),
            letters.sum(1),
            blank=BLANK,
            reduction="none",
            zero_infinity=True,
        )
        return replace(answer, outputs=outputs, signals={"ctc": losses})

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """L, summed over a batch; a text that is longer than its sound has no path, and costs nothing by CTC."""
        if not answer.signals:
            return losses.sum()
        return self.share * answer.signals["ctc"].sum() + (1 - self.share) * losses.sum()


def card(network: JointCtc, blueprint: Blueprint[JointCtcConfig]) -> Card:
    """Describe the model."""
    config = network.config
    sizes = {"step": config.frames // config.joined, "letter": config.vocabulary}
    ctc = model_pb2.OutputDescription(
        name="ctc",
        data_type=values_pb2.DATA_TYPE_FLOAT32,
        dimensions=[model_pb2.Dimension(name=name, size=size) for name, size in sizes.items()],
        summary="Log-probabilities of the letters at each step of what was heard; letter 0 stands for none.",
    )
    return blueprint.card(
        network,
        title="Joint CTC and attention",
        summary="Writes down what is said in a recording, letter by letter; its encoder learned by CTC as well.",
        taxonomy="scoring: location-aware",
        citation="Kim, Hori, Watanabe (2017): Joint CTC-Attention Based End-to-End Speech Recognition Using "
        "Multi-Task Learning. ICASSP",
        outputs=[ctc],
        **parts(network, blueprint),
    )


PRESETS: Mapping[str, Preset] = {
    "tiny": tiny(mels=6, window=64, hop=32, d_embedding=6, d_encoder=6, d_decoder=8, d_attention=6, filters=2, width=3),
    "demo": preset(8, 32, 4e-3, d_encoder=40, d_decoder=64, d_attention=48),
    "full": preset(10, 32, 4e-3, d_encoder=64, d_decoder=96, d_attention=64, layers=3, dropout=0.2),
    # §4.1: 40 filters of frames 10 ms apart, at 16 kHz; AdaDelta there, Adam here.
    "paper": preset(15, 32, 1e-3, weight_decay=0.0, patience=15).sized(
        window=400, hop=160, mels=40, layers=4, halving=2, d_embedding=320, d_encoder=320, d_decoder=320,
        d_attention=320, width=101,
    ),
}  # fmt: skip

JOINT_CTC = transcribing(JointCtcConfig, JointCtc, card, PRESETS)
# The decoder alone teaches.
JOINT_CTC_ATTENTION = JOINT_CTC.changed(share=0.0)
