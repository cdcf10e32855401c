"""Data-efficient image Transformer, L7 (Touvron et al. 2021): a token of its own learns what a teacher says.

Fig. 2 of the paper, from the bottom: class token, patches and distillation token, encoder, and behind each of the two
tokens a classifier. The teacher is a network of convolutions, which the recipe trains on the same pictures first.
"""

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from limelight_models.cards.hidden import named_states
from limelight_models.cards.language import Attends, ImageInput, maps_of
from limelight_models.data import digits
from limelight_models.data.dataset import Dataset
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, classifying_pictures, preset, tiny
from limelight_models.recipes.device import device_of
from limelight_models.zoo.vision.patched import PatchedConfig, PatchEncoder


class DeitConfig(PatchedConfig):
    """Sizes. The paper's DeiT-B has patch 16, d_model 768, 12 layers, 12 heads, d_hidden 3072.

    distillation: what its token learns: the teacher's class, its softened probabilities, or the label. weight,
    temperature: λ and τ of the soft loss. channels, epochs: of the teacher.
    """

    distillation: Literal["hard", "soft", "label"] = "hard"
    weight: float = 0.1
    temperature: float = 3.0
    channels: tuple[int, ...] = (32, 64)
    epochs: int = 10


def convolutional(config: DeitConfig) -> nn.Sequential:
    """A teacher: convolutions of 3 × 3, each of which halves the picture, and classes of what is left of it."""
    layers, rows, columns = list[nn.Module](), config.rows, config.columns
    for before, after in pairwise((len(config.mean), *config.channels)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
        rows, columns = -(-rows // 2), -(-columns // 2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(config.channels[-1] * rows * columns, config.classes))


class DataEfficientTransformer(Network):
    """Image -> classes, with the weights between both tokens and all patches, in every layer and head.

    Z_s, Z_d: scores behind the class token and the distillation token. Answered is the mean of both probabilities
    (§3, "Joint classifiers"):  logits = log((ψ(Z_s) + ψ(Z_d)) / 2), ψ = softmax

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class], maps `encoder.<layer>.self` [batch,
        head, 2 + patch, 2 + patch] with scores and norms; first come the class token and the distillation token.
    """

    def __init__(self, config: DeitConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = PatchEncoder(config, leading=2)
        self.classify, self.distil = (nn.Linear(config.d_model, config.classes) for _ in range(2))
        self.teacher = convolutional(config).requires_grad_(False)

    def forward(self, **tensors: Tensor) -> Answer:
        features, maps, states = self.encoder(tensors["pixels"])
        by_class, by_distillation = features[:, :2].unbind(1)
        scores = torch.stack([self.classify(by_class), self.distil(by_distillation)])
        logits = scores.log_softmax(-1).logsumexp(0) - math.log(2)
        outputs = {"logits": logits, **named_states("encoder", states)}
        if not self.training:
            return Answer(outputs, maps)
        taught = self.teacher(tensors["pixels"])
        return Answer(outputs, maps, {"class": scores[0], "distillation": scores[1], "teacher": taught})

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Cross-entropy behind the class token, and behind the other what the teacher says; τ and λ as in the paper.

        hard (eq. 3):  L = ½ CE(ψ(Z_s), y) + ½ CE(ψ(Z_d), y_t), y_t = argmax Z_t;  label: y_t is y
        soft (eq. 2):  L = (1 - λ) CE(ψ(Z_s), y) + λ τ² KL(ψ(Z_t / τ) ‖ ψ(Z_d / τ))
        """
        if not answer.signals:
            return losses.sum()
        config, (own, distilled, taught) = self.config, answer.signals.values()
        of_class = cross_entropy(own, target, reduction="sum")
        if config.distillation == "soft":
            wanted, found = ((each / config.temperature).log_softmax(-1) for each in (taught, distilled))
            apart = (wanted.exp() * (wanted - found)).sum()
            return (1 - config.weight) * of_class + config.weight * config.temperature**2 * apart
        said = target if config.distillation == "label" else taught.argmax(-1)
        return (of_class + cross_entropy(distilled, said, reduction="sum")) / 2


def teach(network: DataEfficientTransformer, dataset: Dataset, blueprint: Blueprint[DeitConfig]) -> None:
    """Train the teacher on the labelled pictures; it stays as it is while the network learns from it."""
    known, device = [each for each in dataset.train if each.label], device_of(network)
    described = card(network, blueprint)
    read, teacher = described.preprocessor(), network.teacher.requires_grad_(True)
    pixels = torch.from_numpy(described.collate([read.row(each.instance) for each in known])["pixels"]).to(device)
    wanted = torch.tensor([blueprint.labels.index(each.label) for each in known]).to(device)
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=2e-3, fused=True)
    for _ in range(network.config.epochs):
        for chunk in torch.randperm(len(known)).to(device).split(64):
            optimizer.zero_grad()
            cross_entropy(teacher(pixels[chunk]), wanted[chunk]).backward()
            optimizer.step()
    teacher.requires_grad_(False).zero_grad()


def card(network: DataEfficientTransformer, blueprint: Blueprint[DeitConfig]) -> Card:
    """Describe the transformer."""
    image = ImageInput.of(network.config)
    patches = image.patches(network.config.patch, leading=("class", "distillation"))
    about = "What each patch of layer {} looks at; entry 0 is the class token, entry 1 the distillation token."
    return blueprint.card(
        network,
        title="Data-efficient image Transformer",
        summary="Classifies an image by self-attention between patches; one of two more tokens learned of a teacher.",
        inputs=[image],
        maps=maps_of(network.encoder.layers, {"encoder.{}.self": Attends(patches, patches, about)}),
        hidden={"encoder": network.config.d_model},
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Touvron, Cord, Douze, Massa, Sablayrolles, Jégou (2021): Training Data-Efficient Image "
        "Transformers & Distillation Through Attention. ICML",
    )


PRESETS = {
    "tiny": tiny(d_model=8, layers=2, heads=2, d_hidden=12, channels=(4,), epochs=2),
    "demo": preset(30, 64, 2e-3, patience=15, weight_decay=0.05),
    "full": preset(20, 64, 1e-3, patience=5, weight_decay=0.05, patch=4),
    # DeiT-B as it learns ImageNet, of grey pictures, but for pictures changed at random; the teacher is this project's.
    "paper": preset(300, 1024, 1e-3, weight_decay=0.05, patience=300).sized(
        patch=16, d_model=768, layers=12, heads=12, d_hidden=3072, dropout=0.0
    ),
}

DEIT = classifying_pictures(DeitConfig, DataEfficientTransformer, card, PRESETS, builtin=digits.dataset, start=teach)
# The distillation token learns the teacher's softened probabilities (eq. 2), or the label as the class token does.
DEIT_SOFT = DEIT.changed(distillation="soft")
DEIT_LABEL = DEIT.changed(distillation="label")
