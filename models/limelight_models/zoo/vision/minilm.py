"""MiniLM's distillation, P22 (Wang, Wei, Dong, Bao, Yang & Zhou 2020): a small encoder learns a teacher's last layer.

Fig. 1 of the paper: the student's last layer attends as the teacher's does, and its values are as much alike; layers
and sizes may differ, the number of heads may not. The student then learns the task. Ours: encoders of pictures in the
place of BERT's, a teacher that learned the same task, and no teacher between the two.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from limelight_models.attention.flat import split_heads
from limelight_models.attention.signals.distillation import distillation_loss
from limelight_models.blocks.transformer import EncoderLayer
from limelight_models.cards.hidden import named_states
from limelight_models.cards.language import Attends, ImageInput, maps_of
from limelight_models.data import digits
from limelight_models.data.dataset import Dataset
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Settings, classifying_pictures, preset, tiny
from limelight_models.recipes.device import device_of
from limelight_models.zoo.vision.patched import PatchedConfig, PatchEncoder


class MinilmConfig(PatchedConfig):
    """Sizes of the student. The paper's have d_model 768 or 384 and 6 or 12 layers; BERT-base has 12 of 768, 12 heads.

    distilled: whether it learns of a teacher first. teacher, teacher_layers: d_model and layers of the teacher. epochs:
    of the teacher, and of the student with it.
    """

    d_model: int = 16
    layers: int = 2
    d_hidden: int = 32
    distilled: bool = True
    teacher: int = 64
    teacher_layers: int = 4
    epochs: int = 10


class Classifier(nn.Module):
    """A Vision Transformer, with what a student learns of its last layer.

    Shapes: pixels [batch, channel, row, column] -> scores [batch, class], maps by name, hidden states [batch,
        1 + patch, d_model], weights of the last layer and value relations, both [batch, head, 1 + patch, 1 + patch].
    """

    def __init__(self, config: PatchedConfig) -> None:
        super().__init__()
        self.encoder = PatchEncoder(config)
        self.classify = nn.Linear(config.d_model, config.classes)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Mapping[str, Tensor], Sequence[Tensor], Tensor, Tensor]:
        layers, (features, maps, states) = self.encoder.layers, self.encoder(pixels)
        weights = maps[f"encoder.{len(layers) - 1}.self"]
        return self.classify(features[:, 0]), maps, states, weights, value_relations(layers[-1], states[-2])


def value_relations(layer: nn.Module, features: Tensor) -> Tensor:
    """VR = softmax(V Vᵀ / √d), head by head (§3). Shapes: [batch, position, d] -> [batch, head, position, position]."""
    assert isinstance(layer, EncoderLayer)
    value = split_heads(layer.attention.value_map(layer.attention_norm(features)), layer.attention.heads)
    return (value @ value.transpose(-2, -1) / value.shape[-1] ** 0.5).softmax(-1)


class Minilm(Network):
    """Image -> classes, by the student alone, with the weights between all patches, in every layer and head.

    Shapes: pixels float32 [batch, channel, row, column] -> logits [batch, class], maps `encoder.<layer>.self` [batch,
        head, 1 + patch, 1 + patch], with scores and norms; entry 0 is the class token.
    """

    def __init__(self, config: MinilmConfig) -> None:
        super().__init__()
        self.config = config
        self.student = Classifier(config)
        d = config.teacher
        larger = replace(config, d_model=d, layers=config.teacher_layers, d_hidden=2 * d)
        self.teacher = Classifier(larger).requires_grad_(False)

    def forward(self, **tensors: Tensor) -> Answer:
        scores, maps, states, *_ = self.student(tensors["pixels"])
        return Answer({"logits": scores, **named_states("encoder", states)}, maps)

    def apart(self, pixels: Tensor) -> Tensor:
        """L = L_AT + L_VR, divergences of the student's last weights and value relations from the teacher's (§3)."""
        *_, wanted, alike = self.teacher(pixels)
        *_, weights, relations = self.student(pixels)
        return distillation_loss(weights, wanted) + distillation_loss(relations, alike)


def distil(network: Minilm, dataset: Dataset, blueprint: Blueprint[MinilmConfig]) -> None:
    """Train the teacher on the labelled pictures, then the student's encoder to do as its last layer does."""
    if not network.config.distilled:
        return
    known, device = [each for each in dataset.train if each.label], device_of(network)
    described, teacher = card(network, blueprint), network.teacher.requires_grad_(True)
    read = described.preprocessor()
    pixels = torch.from_numpy(described.collate([read.row(each.instance) for each in known])["pixels"]).to(device)
    wanted = torch.tensor([blueprint.labels.index(each.label) for each in known]).to(device)

    def learn(part: Classifier, loss: Callable[[Tensor], Tensor]) -> None:
        optimizer = torch.optim.AdamW(part.parameters(), lr=2e-3, fused=True)
        for _ in range(network.config.epochs):
            for chunk in torch.randperm(len(known)).to(device).split(64):
                optimizer.zero_grad()
                loss(chunk).backward()
                optimizer.step()

    learn(teacher, lambda chunk: cross_entropy(teacher(pixels[chunk])[0], wanted[chunk]))
    teacher.requires_grad_(False).eval().zero_grad()
    learn(network.student, lambda chunk: network.apart(pixels[chunk]))


def card(network: Minilm, blueprint: Blueprint[MinilmConfig]) -> Card:
    """Describe the student."""
    image = ImageInput.of(network.config)
    patches = image.patches(network.config.patch, leading=("class",))
    shown = Attends(patches, patches, "What each patch of layer {} looks at; entry 0 is the class token.")
    return blueprint.card(
        network,
        title="MiniLM's student",
        summary="Classifies an image by a small encoder whose last layer learned to attend as a larger one's does.",
        inputs=[image],
        maps=maps_of(network.student.encoder.layers, {"encoder.{}.self": shown}),
        hidden={"encoder": network.config.d_model},
        taxonomy="scaled multiplicative, self-attentive, multi-head",
        citation="Wang, Wei, Dong, Bao, Yang, Zhou (2020): MiniLM: Deep Self-Attention Distillation for "
        "Task-Agnostic Compression of Pre-Trained Transformers. NeurIPS",
    )


_SETTINGS = Settings(epochs=60, batch_size=64, learning_rate=2e-3, patience=15, weight_decay=0.05)
PRESETS = {
    "tiny": tiny(d_model=8, layers=1, heads=2, d_hidden=12, teacher=12, teacher_layers=2, epochs=2),
    "demo": Preset(settings=_SETTINGS),
    "full": Preset(settings=_SETTINGS, sizes={"patch": 4, "d_model": 32, "d_hidden": 64}),
    # The sizes of BERT-base and of the student with half its layers and half its features, as encoders of pictures.
    "paper": preset(10, 256, 5e-4, patience=10).sized(
        patch=16, d_model=384, d_hidden=1536, layers=6, heads=12, teacher=768, teacher_layers=12
    ),
}

MINILM = classifying_pictures(MinilmConfig, Minilm, card, PRESETS, builtin=digits.dataset, start=distil)
# The student learns the task alone.
MINILM_ALONE = MINILM.changed(distilled=False)
