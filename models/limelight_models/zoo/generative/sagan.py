"""SAGAN, J11 (Zhang, Goodfellow, Metaxas & Odena 2019): pictures drawn from noise, each part in view of all others.

Fig. 2 of the paper is the self-attention module; generator and critic have one each, at half the picture's size. Both
are normalised by their spectra (§4.1), and the critic learns faster (§4.2). Blocks are plain where the paper's are
residual; class-conditional normalisation and projection are the paper's (§5).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, leaky_relu
from torch.nn.utils.parametrizations import spectral_norm

from limelight_models.attention import Attention
from limelight_models.attention.queries.self_attention import SelfAttention
from limelight_models.attention.score import Dot
from limelight_models.attention.weights import AroundAttention
from limelight_models.cards.language import Attends, LabelSet, Noise, Numbers, TextInput, maps_of
from limelight_models.data import digits, drawings, folder, tokenizers
from limelight_models.data.dataset import DataError, Dataset, classes
from limelight_models.data.images import grey_levels
from limelight_models.network import Answer, DrawingNetwork
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, Settings, Sizes, tiny
from limelight_models.tasks.draw import Draw

TOKENIZER = "tokenizer.json"


class SaganConfig(Sizes):
    """Sizes. The paper draws 128 × 128 pixels from 128 numbers, with attention at 32 × 32 and 64 × 64.

    vocabulary: tokens that name classes. channels: at a quarter of the picture's size, half of it, and all of it.
    attentive: whether there is attention. critic_rate: how much faster the critic learns.
    """

    vocabulary: int
    rows: int = 8
    columns: int = 8
    d_noise: int = 32
    channels: tuple[int, int, int] = (64, 32, 16)
    attentive: bool = True
    critic_rate: float = 4.0
    max_tokens: int = 8

    def __post_init__(self) -> None:
        if self.rows % 4 or self.columns % 4:
            raise ValueError(f"{self.rows} x {self.columns} pixels are not multiples of 4")


class PictureAttention(AroundAttention, nn.Module):
    """Self-attention between the cells of a grid, which begins as nothing (paper §3, eq. 1–3).

    β_ji = softmax_i(f(x_i)ᵀ g(x_j));  o_j = v(Σ_i β_ji h(x_i));  y = γ o + x, γ = 0 at first

    Shapes: features [batch, d, row, column] -> the same, weights [batch, head = 1, cell, cell].
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        small = max(1, d // 8)
        attention = Attention(score=Dot())
        self.attention = SelfAttention(attention=attention, d_f=d, d_q=small, d_k=small, d_v=max(1, d // 2))
        self.merge = nn.Linear(max(1, d // 2), d, bias=False)
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        cells = features.flatten(2).transpose(1, 2)
        seen, weights = self.attention(cells)
        merged = self.merge(seen).transpose(1, 2).unflatten(2, features.shape[2:])
        return features + self.gamma * merged, weights


class Named(nn.Embedding):
    """A vector for a class: the mean over the tokens of its name.

    Shapes: class_ids [batch, token], class_mask bool of the same -> [batch, d].
    """

    def of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """The vector of each row's class."""
        mask = tensors["class_mask"].unsqueeze(-1)
        mean: Tensor = (self(tensors["class_ids"]) * mask).sum(1) / mask.sum(1)
        return mean


class ClassNorm(nn.Module):
    """Batch normalisation whose gain and bias are each class's own (Dumoulin et al. 2017; paper §5)."""

    def __init__(self, d: int, vocabulary: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(d, affine=False)
        self.gain, self.bias = Named(vocabulary, d), Named(vocabulary, d)
        nn.init.ones_(self.gain.weight)
        nn.init.zeros_(self.bias.weight)

    def forward(self, features: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
        gain, bias = (each.of(tensors)[:, :, None, None] for each in (self.gain, self.bias))
        normed: Tensor = self.norm(features) * gain + bias
        return normed


class Critic(nn.Module):
    """Scores of pictures as real ones of their class (paper §5: the projection of Miyato & Koyama 2018).

    D(x, y) = wᵀ φ(x) + b + e_yᵀ φ(x)

    Shapes: pictures [batch, row × column], and the class -> [batch].
    """

    def __init__(self, config: SaganConfig) -> None:
        super().__init__()
        coarse, middle, fine = config.channels
        self.unfold = nn.Unflatten(1, (1, config.rows, config.columns))
        self.first = nn.Conv2d(1, fine, 4, 2, 1)
        self.attention = PictureAttention(fine) if config.attentive else None
        self.second = nn.Conv2d(fine, middle, 4, 2, 1)
        self.third = nn.Conv2d(middle, coarse, 3, 1, 1)
        self.score = nn.Linear(coarse, 1)
        self.classes = Named(config.vocabulary, coarse)
        spectrally_normalised(self)

    def forward(self, pictures: Tensor, **tensors: Tensor) -> Tensor:
        features = leaky_relu(self.first(self.unfold(pictures)), 0.1)
        if self.attention is not None:
            features, _ = self.attention(features)
        features = leaky_relu(self.third(leaky_relu(self.second(features), 0.1)), 0.1).sum((2, 3))
        projected = (self.classes.of(tensors) * features).sum(-1)
        scores: Tensor = self.score(features)[:, 0] + projected
        return scores


class Sagan(DrawingNetwork):
    """A class and noise -> a picture, with the weights of every part of it over all parts.

    Shapes: class_ids int64 [batch, token], class_mask bool of the same, noise [batch, d_noise], normal
        -> values [batch, row × column], from -1 to 1,
        map `generator.self` [batch, head = 1, cell, cell] of cells of 2 × 2 pixels.
    """

    noise = "noise"

    def __init__(self, config: SaganConfig) -> None:
        super().__init__()
        self.config = config
        coarse, middle, fine = config.channels
        self.begin = nn.Linear(config.d_noise, coarse * config.rows * config.columns // 16)
        self.norms = nn.ModuleList(ClassNorm(d, config.vocabulary) for d in config.channels)
        self.first = nn.Conv2d(coarse, middle, 3, 1, 1)
        self.attention = PictureAttention(middle) if config.attentive else None
        self.second = nn.Conv2d(middle, fine, 3, 1, 1)
        self.paint = nn.Conv2d(fine, 1, 3, 1, 1)
        spectrally_normalised(self)
        self.critic = Critic(config)

    def forward(self, **tensors: Tensor) -> Answer:
        maps, grid = {}, (self.config.rows // 4, self.config.columns // 4)
        features = self.begin(tensors["noise"]).unflatten(1, (self.config.channels[0], *grid))
        features = self.first(larger(torch.relu(self.norms[0](features, tensors))))
        if self.attention is not None:
            features, maps["generator.self"] = self.attention(features)
        features = self.second(larger(torch.relu(self.norms[1](features, tensors))))
        picture = torch.tanh(self.paint(torch.relu(self.norms[2](features, tensors))))
        return Answer({"values": picture.flatten(1)}, maps)

    def rates(self) -> Iterable[tuple[Sequence[nn.Parameter], float]]:
        """Two time scales: the critic learns faster (paper §4.2; Heusel et al. 2017)."""
        critic = list(self.critic.parameters())
        own = {id(each) for each in critic}
        yield [each for each in self.parameters() if id(each) not in own], 1.0
        yield critic, self.config.critic_rate


def larger(features: Tensor) -> Tensor:
    """Twice the size."""
    return interpolate(features, scale_factor=2)


def spectrally_normalised(module: nn.Module) -> None:
    """Divide the weights of every map below by their largest singular value (Miyato et al. 2018; paper §4.1)."""
    for each in module.modules():
        if isinstance(each, nn.Conv2d | nn.Linear):
            spectral_norm(each)


def card(network: Sagan, blueprint: Blueprint[SaganConfig]) -> Card:
    """Describe the network; one without attention has no map."""
    config = network.config
    asked = TextInput(
        name=drawings.INPUT,
        summary=f"What is to be drawn: one of {', '.join(blueprint.labels)}.",
        tokenizer=blueprint.tokenizer(TOKENIZER),
        max_tokens=config.max_tokens,
        prefix="class",
        dimension="class",
    )
    cells = LabelSet(name="cells", kind="grid", grid=(config.rows // 2, config.columns // 2))
    places = [f"row {row + 1}, column {column + 1}" for row in range(config.rows) for column in range(config.columns)]
    shown = {"generator.self": Attends(cells, cells, "What each part of the picture looks at while it is drawn.")}
    return blueprint.card(
        network,
        title="SAGAN",
        summary="Draws a picture of a class from noise that the seed decides; pixels are from -1, black, to 1, white.",
        inputs=[asked],
        results=[Numbers(targets=dict.fromkeys(places, ""), name="picture")],
        maps={} if network.attention is None else maps_of(network.attention, shown),
        taxonomy="multiplicative, self-attentive",
        citation="Zhang, Goodfellow, Metaxas, Odena (2019): Self-Attention Generative Adversarial Networks. ICML",
        noise=[Noise(name=network.noise, axes={"number": config.d_noise}, distribution="normal")],
        max_characters=100,
    )


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[SaganConfig]:
    """The training part's classes and size of pictures. Raises: DataError where the size is no multiple of 4."""
    pictures = grey_levels(example.picture for example in dataset.train if example.picture is not None)
    labels = classes(dataset)
    tokenizer = tokenizers.words(labels, vocabulary=1000)
    try:
        config = SaganConfig(
            vocabulary=tokenizers.size(tokenizer), rows=pictures.rows, columns=pictures.columns, **preset.sizes
        )
    except ValueError as error:
        raise DataError(str(error)) from error
    return Blueprint(config, labels, {TOKENIZER: tokenizer})


_SETTINGS = Settings(batch_size=32, learning_rate=5e-4, weight_decay=0.0, momentum=0.0, patience=100, clip=10.0)
PRESETS = {
    "tiny": tiny(d_noise=3, channels=(4, 5, 3)),
    "demo": Preset(settings=replace(_SETTINGS, epochs=60)),
    "full": Preset(settings=replace(_SETTINGS, epochs=3)),
    # For pictures of 128 × 128: the paper's widths at 32, 64 and 128, and its two rates. Its pictures have colours, its
    # batches 64 on each of four GPUs, its generator two more blocks below 32 × 32, and its second moment β 0.9.
    "paper": Preset(
        settings=replace(_SETTINGS, epochs=200, batch_size=64, learning_rate=1e-4, patience=200),
        sizes={"d_noise": 128, "channels": (256, 128, 64), "critic_rate": 4.0},
    ),
}

SAGAN = Recipe(SaganConfig, Sagan, card, prepare, PRESETS, task=Draw(), data=folder.DRAWINGS, builtin=digits.drawings)
# The same without attention.
SAGAN_PLAIN = SAGAN.changed(attentive=False)
