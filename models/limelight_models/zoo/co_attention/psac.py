"""PSAC, positional self-attention with co-attention, J12 (Li, Song, Gao, Liu, Huang, He & Gan 2019): films.

Fig. 1 of the paper: positional self-attention over the frames and over the words, neither recurrent; co-attention of
the two; the frames, each with what was asked and seen, averaged; the answer. Co-attention and fusion are those of the
authors' code. Their words have spellings as well, and their frames features of a ResNet; here they are a small
network's.
"""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from limelight_models.attention.features import ConcatProduct
from limelight_models.blocks.cells import Cells
from limelight_models.blocks.transformer import PostNormLayer, places
from limelight_models.blocks.two_way import TwoWay
from limelight_models.cards.maps import Attends, maps_of
from limelight_models.data.canvas import films
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.answering import VqaConfig, answering, frames_of, prepare
from limelight_models.zoo.co_attention.vqa import Words

BOTH = ("question", "video")


class PsacConfig(VqaConfig):
    """Sizes. The authors' code has 36 frames, d 2048 for them, and 8 heads."""

    d: int = 128
    layers: int = 1
    heads: int = 4
    d_hidden: int = 128

    @property
    def frames(self) -> int:
        """Number of squares of the picture."""
        return self.columns // self.rows


class Frames(nn.Module):
    """The frames of a film that is one picture, from left to right, each as one vector of what is where.

    v = Σ_c p_c ⊙ relu(W f_c), f_c the features of cell c, p_c learned of its place

    Shapes: pixels [batch, 1, row, frame × row] -> [batch, frame, d].
    """

    def __init__(self, config: PsacConfig) -> None:
        super().__init__()
        self.count = config.frames
        # Over the batch: what a frame shows more of than others is what normalising over the frame takes away.
        self.cells = Cells(
            channels=config.channels, strides=config.strides, rows=config.rows, columns=config.rows, norm=nn.BatchNorm2d
        )
        count = math.prod(self.cells.grid)
        self.project = nn.Linear(self.cells.d_out, config.d)
        self.places = nn.Parameter(torch.randn(count, config.d) / count**0.5)

    def forward(self, pixels: Tensor) -> Tensor:
        apart = pixels.unflatten(3, (self.count, -1)).permute(0, 3, 1, 2, 4)  # [batch, frame, 1, row, column]
        seen = torch.relu(self.project(self.cells(apart.flatten(0, 1))))  # [batch × frame, cell, d]
        return (seen * self.places).sum(1).unflatten(0, (-1, self.count))


class PositionalSelfAttention(nn.Module):
    """Every position looks at every other and knows where it is: x + layers(x + PE).

    Shapes: features [batch, position, d], mask bool [batch, position] -> the same, weights of each layer [batch, head,
        position, position].
    """

    def __init__(self, config: PsacConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            PostNormLayer(d_model=config.d, heads=config.heads, d_hidden=config.d_hidden, dropout=config.dropout)
            for _ in range(config.layers)
        )

    def forward(self, features: Tensor, mask: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        position = torch.arange(features.shape[1], device=features.device)
        encoded, weights = features + places(position, features), []
        for layer in self.layers:
            encoded, looks = layer(encoded, mask)
            weights.append(looks)
        return features + encoded, weights


class Psac(Network):
    """A film and a question -> an answer, with what frames and words look at, among themselves and in each other.

    attends: which of the two co-attentions there are. h_t = W [v_t; a_t; v_t ⊙ a_t; v_t ⊙ b_t], averaged over frames

    Shapes: pixels [batch, 1, row, frame × row], question_ids int64 [batch, word], question_mask bool -> logits [batch,
        class]; maps `frames.<layer>.self` [batch, head, frame, frame], `words.<layer>.self` [batch, head, word, word],
        `frames.cross` [batch, 1, frame, word] and `words.cross` [batch, 1, word, frame].
    """

    def __init__(self, config: PsacConfig, *, attends: Sequence[str] = BOTH) -> None:
        super().__init__()
        self.config, self.attends, d = config, attends, config.d
        self.frames, self.words = Frames(config), Words(config)
        self.over_frames, self.over_words = PositionalSelfAttention(config), PositionalSelfAttention(config)
        self.co_attention = TwoWay(ConcatProduct(d=d))
        parts = 1 + 2 * ("question" in attends) + ("video" in attends)
        self.join, self.dropout = nn.Linear(parts * d, d), nn.Dropout(config.dropout)
        self.hidden, self.classify = nn.Linear(d, 2 * d), nn.Linear(2 * d, config.classes)

    @property
    def cells(self) -> Cells:
        """The eye."""
        return self.frames.cells

    def forward(self, **tensors: Tensor) -> Answer:
        mask = tensors["question_mask"]
        frames, own = self.over_frames(self.dropout(self.frames(tensors["pixels"])))
        words, asked = self.over_words(self.words(tensors["question_ids"], mask), mask)
        (heard, looked), (listening, looking) = self.co_attention(frames, words, mask)
        parts = [frames]
        if "question" in self.attends:
            parts += [heard, frames * heard]
        if "video" in self.attends:
            parts.append(frames * looked)
        whole = torch.relu(self.join(self.dropout(torch.cat(parts, -1)))).mean(1)
        maps = {f"frames.{number}.self": each for number, each in enumerate(own)}
        # Padding asks for nothing.
        maps |= {f"words.{number}.self": each * mask[:, None, :, None] for number, each in enumerate(asked)}
        maps |= {"frames.cross": listening, "words.cross": looking}
        return Answer({"logits": self.classify(self.dropout(torch.relu(self.hidden(whole))))}, maps)


def card(network: Psac, blueprint: Blueprint[PsacConfig]) -> Card:
    """Describe the network."""
    config = network.config
    film = config.picture("A film: square frames side by side, from left to right; it is scaled to the model's size.")
    question = config.question(blueprint.tokenizer())
    frames, words = film.cells(1, config.frames, name="frames"), question.tokens("words")
    of_frames = {"frames.{}.self": Attends(frames, frames, "What each frame looks at among the frames in layer {}.")}
    of_words = {"words.{}.self": Attends(words, words, "What each word looks at among the words in layer {}.")}
    between = {
        "frames.cross": Attends(frames, words, "Which words each frame listens to.", kind="co"),
        "words.cross": Attends(words, frames, "Which frames each word looks at.", kind="co"),
    }
    return blueprint.card(
        network,
        title="Positional self-attention with co-attention",
        summary="Answers questions about films by attention among frames, among words, and between the two.",
        inputs=[film, question],
        maps=maps_of(network.over_frames.layers, of_frames)
        | maps_of(network.over_words.layers, of_words)
        | maps_of(network.co_attention, between),
        taxonomy="scaled multiplicative, parallel co-attention, self-attentive, specialised, singular, multi-head",
        citation="Li, Song, Gao, Liu, Huang, He, Gan (2019): Beyond RNNs: Positional Self-Attention with "
        "Co-Attention for Video Question Answering. AAAI",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, channels=(4, 6, 8), d=8, heads=2, d_hidden=8),
    "demo": preset(12, 32, 5e-4, vocabulary=500, taught=True),
    "full": preset(20, 32, 1e-3, patience=5, vocabulary=8000, d=192, d_hidden=384, dropout=0.2),
    # The authors' code for TGIF's questions about frames, of which a film has 36. Theirs are features of a ResNet, of
    # 2048, their words 364; here all have the size of the frames. Adam is in the place of Adamax.
    "paper": preset(100, 32, 1e-3, weight_decay=0.0, patience=10, clip=0.25, vocabulary=10_000).sized(
        d=2048, heads=8, d_hidden=512
    ),
}

PSAC = answering(PsacConfig, Psac, card, PRESETS, choices=partial(prepare, size=frames_of), builtin=films.dataset)
# Each co-attention alone.
PSAC_QUESTION, PSAC_VIDEO = (PSAC.with_parts(attends=(each,)) for each in BOTH)
