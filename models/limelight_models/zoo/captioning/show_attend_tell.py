"""Show, attend and tell, J3 (Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel & Bengio 2015).

Fig. 1 of the paper, from the left: a picture, convolutional features of its regions, a recurrent network that looks at
the regions before each word, the words. Soft attention (§4.2) weighs all regions; hard attention (§4.1) draws one.

The paper's encoder was trained on ImageNet and stays as it is. This one learns the names of digits before anything is
told of them, where its config says so, and goes on learning with the rest.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, Context
from limelight_models.attention.align import Hard, Softmax
from limelight_models.attention.score import Additive
from limelight_models.attention.score.prepared import PreparedKeys
from limelight_models.attention.signals import MovingBaseline, doubly_stochastic_penalty, reinforce_loss
from limelight_models.blocks.cells import Cells
from limelight_models.cards.language import Attends, ImageInput, Noise, Written, carried_states, forced_target, maps_of
from limelight_models.data import rows, tokenizers
from limelight_models.data.canvas import captions
from limelight_models.data.dataset import Dataset
from limelight_models.data.images import grey_levels
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, Sizes, fitting, preset, tiny
from limelight_models.recipes.vision_pretraining import learn_to_see
from limelight_models.tasks.generate import Generate

TARGET = "target.json"
_OPEN = 3.0  # the gate, to begin with: closed, it would let no gradient through to where to look


class ShowAttendTellConfig(Sizes):
    """Sizes. The paper has VGG's 14 × 14 regions of 512 features, d_embedding 512 and d_state up to 1800.

    begin, end: the token put in first, and the one that ends a sequence. channels, strides: of the encoder's layers,
    the last of which has stride 1. taught: whether it learns the names of handwritten digits to begin with. doubly:
    weight λ of the doubly stochastic penalty (paper: 1, over 196 regions). hard: draw a region instead of weighing all.
    expected: share of the instances whose draws are replaced by the expected value in training. reinforce, entropy:
    weights λ_r and λ_e of the hard model's objective. mean, deviation: of pixels from 0 to 1.
    """

    vocabulary: int
    begin: int
    end: int
    rows: int = 48
    columns: int = 48
    mean: tuple[float, ...] = (0.5,)
    deviation: tuple[float, ...] = (0.5,)
    channels: tuple[int, ...] = (24, 48, 64)
    strides: tuple[int, ...] = (2, 3)
    d_embedding: int = 32
    d_state: int = 96
    d_attention: int = 64
    dropout: float = 0.1
    doubly: float = 0.002
    taught: bool = False
    hard: bool = False
    expected: float = 0.5
    reinforce: float = 0.1
    entropy: float = 0.002
    max_new_tokens: int = 32
    max_pixels: int = 16_777_216

    def __post_init__(self) -> None:
        cell = math.prod(self.strides)
        if self.rows % cell or self.columns % cell:
            raise ValueError(f"{self.rows} x {self.columns} pixels cannot be cut into cells of {cell}")


class ShowAttendTell(GeneratingNetwork):
    """Picture -> text, with the weights of every token over the regions.

    Shapes: pixels float32 [batch, channel, row, column], target_ids int64 [batch, output] ending with the end token,
        target_mask bool of the same -> scores [batch, output, token], map `decoder.cross` [batch, 1, output, cell].
        Hard: `noise` [batch, cell], uniform, decides what a step draws.
    """

    def __init__(self, config: ShowAttendTellConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Cells(channels=config.channels, strides=config.strides, rows=config.rows, columns=config.columns)
        d, d_state = self.encoder.d_out, config.d_state
        self.initial_hidden, self.initial_cell = nn.Linear(d, d_state), nn.Linear(d, d_state)
        self.prepared = PreparedKeys(Additive(d_q=d_state, d_k=d, d_w=config.d_attention))
        align = Hard(expected=config.expected) if config.hard else Softmax()
        self.attention = Attention(score=self.prepared, align=align)
        self.gate = nn.Linear(d_state, 1)
        nn.init.constant_(self.gate.bias, _OPEN)
        self.words = nn.Embedding(config.vocabulary, config.d_embedding, padding_idx=0)
        self.decoder = nn.LSTMCell(config.d_embedding + d, d_state)
        self.dropout = nn.Dropout(config.dropout)
        self.from_state = nn.Linear(d_state, config.d_embedding)
        self.from_context = nn.Linear(d, config.d_embedding)
        self.scores = nn.Linear(config.d_embedding, config.vocabulary)
        self.baseline = MovingBaseline()

    @property
    def cells(self) -> Cells:
        """The eye."""
        return self.encoder

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Annotations a_i, what the score makes of them once, h_0 = f_h(mean a) and c_0 = f_c(mean a).

        Shapes: annotations [batch, cell, d], keys [batch, cell, d_attention], initial_… [batch, d_state].
        """
        annotations = self.encoder(tensors["pixels"])
        mean = annotations.mean(1)
        return {
            "annotations": annotations,
            "keys": self.prepared.prepare(annotations.unsqueeze(1)).squeeze(1),
            "initial_hidden": torch.tanh(self.initial_hidden(mean)),
            "initial_cell": torch.tanh(self.initial_cell(mean)),
        }

    def look(
        self, hidden: Tensor, fixed: Mapping[str, Tensor], noise: Tensor | None, whole: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """ẑ_t = β_t φ(a, α_t) with α_t = align(f_att(a, h_{t-1})) and β_t = sigmoid(f_β(h_{t-1})); weights, scores.

        Shapes: hidden [batch, d_state], noise [batch, cell], whole [batch] -> [batch, d], [batch, 1, 1, cell] twice.
        """
        context = Context(
            noise=None if noise is None else noise[:, None, None],
            query_noise=None if whole is None else whole[:, None, None],
        )
        keys, values = fixed["keys"].unsqueeze(1), fixed["annotations"].unsqueeze(1)
        seen, weights, scores = self.attention.with_scores(hidden[:, None, None], keys, values, None, context)
        return self.gate(hidden).sigmoid() * seen[:, 0, 0], weights, scores

    def advance(self, embedded: Tensor, seen: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """h_t and c_t from E y_{t-1}, ẑ_t and the last ones (paper eq. 1–3)."""
        following: tuple[Tensor, Tensor] = self.decoder(torch.cat([embedded, seen], -1), (hidden, cell))
        return following

    def read_out(self, embedded: Tensor, seen: Tensor, hidden: Tensor) -> Tensor:
        """p(y_t) = softmax(L_o (E y_{t-1} + L_h h_t + L_z ẑ_t)) (paper eq. 7)."""
        scores: Tensor = self.scores(self.dropout(embedded + self.from_state(hidden) + self.from_context(seen)))
        return scores

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """Shapes: token [batch], what `encode` gave, hidden and cell [batch, d_state] -> scores [batch, token]."""
        embedded = self.words(token)
        seen, weights, _ = self.look(tensors["hidden"], tensors, tensors["noise"] if self.config.hard else None)
        hidden, cell = self.advance(embedded, seen, tensors["hidden"], tensors["cell"])
        states = {"next_hidden": hidden, "next_cell": cell}
        return StepAnswer(self.read_out(embedded, seen, hidden), states, {"decoder.cross": weights[:, :, 0]})

    def forward(self, **tensors: Tensor) -> Answer:
        fixed, target = self.encode(**tensors), tensors["target_ids"]
        embedded = self.words(torch.cat([torch.full_like(target[:, :1], self.config.begin), target[:, :-1]], 1))
        hidden, cell = fixed["initial_hidden"], fixed["initial_cell"]
        # In training each step draws anew, and one draw an instance says whether it takes the expected value instead.
        align, draws = self.attention.align, self.config.hard and self.training
        whole = torch.rand_like(hidden[:, 0]) if draws else None
        hiddens, seens, rows_, log_probabilities, entropies = [], [], [], [], []
        for each in embedded.unbind(1):
            noise = torch.rand_like(fixed["keys"][..., 0]) if draws else tensors.get("noise")
            seen, weights, scores = self.look(hidden, fixed, noise, whole)
            hidden, cell = self.advance(each, seen, hidden, cell)
            hiddens.append(hidden)
            seens.append(seen)
            rows_.append(weights)
            if draws and isinstance(align, Hard):
                log_probabilities.append(align.log_probability(weights, scores, None)[:, 0, 0])
                entropies.append(align.entropy(scores, None)[:, 0, 0])
        weights, mask = torch.cat(rows_, 2), tensors["target_mask"]
        signals = {"mask": mask, "doubly": doubly_stochastic_penalty(weights, mask)}
        if whole is not None:
            drawn = (whole >= self.config.expected).unsqueeze(1)
            signals["log_probability"] = (torch.stack(log_probabilities, 1) * mask * drawn).sum(1)
            signals["entropy"] = (torch.stack(entropies, 1) * mask).sum(1)
        return Answer(
            {"scores": self.read_out(embedded, torch.stack(seens, 1), torch.stack(hiddens, 1))},
            {"decoder.cross": weights},
            signals,
        )

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """In training, -log p(y) + λ Σ_i (1 - Σ_t α_ti)² (eq. 14); for draws s̃ REINFORCE with a moving average
        as baseline and the entropy (eq. 12–13):

        λ_r (log p(y | s̃, a) - b) ∂ log p(s̃ | a) + λ_e ∂ H
        """
        if not self.training:
            return losses.sum()
        signals, config = answer.signals, self.config
        mask = signals["mask"]
        total = losses.sum() + len(mask) * config.doubly * signals["doubly"]
        if not config.hard:
            return total
        reward = -losses.new_zeros(mask.shape).masked_scatter(mask, losses.detach()).sum(1)
        return total + len(mask) * reinforce_loss(
            config.reinforce * signals["log_probability"],
            reward,
            self.baseline(reward),
            signals["entropy"],
            config.entropy,
        )


def card(network: ShowAttendTell, blueprint: Blueprint[ShowAttendTellConfig]) -> Card:
    """Describe the model."""
    config = network.config
    image = ImageInput.of(config)
    cells = image.cells(*network.encoder.grid)
    target = forced_target(blueprint.tokenizer(TARGET), config.max_new_tokens)
    written = Written.by(config, target.tokenizer, states=carried_states("hidden", "cell"))
    about = "Where the decoder looked in the picture before it put out each token."
    cross = Attends(written.steps, cells, about, features=network.encoder.d_out)
    return blueprint.card(
        network,
        title="Show, attend and tell",
        summary="Describes a picture word by word, looking at a part of it before each one.",
        inputs=[image, target],
        results=[written],
        maps=maps_of(network.attention, {"decoder.cross": cross}),
        taxonomy="additive, hard" if config.hard else "additive",
        citation="Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel, Bengio (2015): Show, Attend and Tell: "
        "Neural Image Caption Generation with Visual Attention. ICML",
        noise=[Noise(axes={cells.name: cells.axis.size})] if config.hard else [],
    )


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[ShowAttendTellConfig]:
    """The training part's pieces of words, and its pictures' size and brightness. Raises: DataError where cells do not
    fit.
    """
    pixels = grey_levels(example.instance["image"] for example in dataset.train)
    texts = tokenizers.texts_of([example.instance["target"] for example in dataset.train])
    target = tokenizers.pieces(texts, vocabulary=preset.vocabulary, output=True)
    begin, end = tokenizers.special_ids(target)
    config = fitting(
        ShowAttendTellConfig, vocabulary=tokenizers.size(target), begin=begin, end=end, **pixels.sizes, **preset.sizes
    )
    return Blueprint(config, (), {TARGET: target})


PRESETS = {
    "tiny": tiny(vocabulary=50, channels=(4, 6), strides=(2,), d_embedding=6, d_state=8, d_attention=6),
    "demo": preset(7, 32, 2e-3, patience=7, vocabulary=150, taught=True),
    "full": preset(20, 64, 2e-3, patience=5, vocabulary=4000).sized(
        channels=(32, 64, 128), d_embedding=96, d_state=256, d_attention=128, dropout=0.3
    ),
    # The authors' for COCO, on pictures of 224 × 224: 14 × 14 regions of 512 features. Theirs are those of VGG, which
    # has learned ImageNet and stays as it is; these are of five plain convolutions, of grey pictures, and learn.
    "paper": preset(50, 64, 2e-4, weight_decay=0.0, patience=10, vocabulary=10_000).sized(
        channels=(64, 128, 256, 512, 512),
        strides=(2, 2, 2, 2),
        d_embedding=512,
        d_state=1800,
        d_attention=512,
        dropout=0.5,
        doubly=1.0,
    ),
}

SHOW_ATTEND_TELL = Recipe(
    ShowAttendTellConfig,
    ShowAttendTell,
    card,
    prepare,
    PRESETS,
    task=Generate(),
    data=rows.CAPTIONS,
    builtin=captions.dataset,
    start=learn_to_see,
)
# The same with hard attention (paper §4.1).
SHOW_ATTEND_TELL_HARD = SHOW_ATTEND_TELL.changed(hard=True)
# Taught where the digit is that it names (Liu et al. 2017).
SHOW_ATTEND_TELL_SUPERVISED = SHOW_ATTEND_TELL.supervised(0.5)
# The same, whose eye knows nothing to begin with.
SHOW_ATTEND_TELL_UNTAUGHT = SHOW_ATTEND_TELL.but(presets={**PRESETS, "demo": replace(PRESETS["demo"], sizes={})})
# Soft attention without the penalty on regions that are looked at too much or too little (paper §4.2.1).
SHOW_ATTEND_TELL_FREE = SHOW_ATTEND_TELL.changed(doubly=0.0)
