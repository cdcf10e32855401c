"""Recipes of models that assign a class: to documents, to images."""

import io
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image as Picture
from torch import Tensor
from torch.nn.functional import cross_entropy

from bundle.values import Image
from limelight.v1 import model_pb2
from models.cards.card import Card
from models.data import digits, docstrings, folder, rows, tokenizers
from models.data.dataset import DataError, Dataset
from models.network import Network
from models.training.batches import Batch, Batches
from models.training.recipe import C, Plan, Recipe
from models.training.settings import Preset
from models.zoo.hierarchical import han
from models.zoo.vision import vit


class Classifier(Recipe[C]):
    """The loss and the metric that all classifiers share."""

    def loss(self, model: Network, batch: Batch) -> tuple[Tensor, int]:
        logits = model(**batch.tensors).outputs["logits"]
        return cross_entropy(logits, batch.classes, reduction="sum"), len(batch.indices)

    def judge(self, model: Network, card: Card, batches: Batches, dataset: Dataset) -> list[model_pb2.Metric]:
        """Accuracy beside that of always answering the training part's most frequent class."""
        right = 0
        with torch.no_grad():
            for batch in batches.in_order():
                right += int((model(**batch.tensors).outputs["logits"].argmax(-1) == batch.classes).sum())
        majority = Counter(example.label for example in dataset.train).most_common(1)[0][0]
        share = sum(example.label == majority for example in batches.examples) / len(batches.examples)
        return [
            model_pb2.Metric(
                name="accuracy",
                value=right / len(batches.examples),
                split="held-out",
                baseline=share,
                baseline_name="majority class",
            )
        ]


class Documents(Classifier[han.HanConfig]):
    """Hierarchical attention network over labelled documents; `make` can be a variant."""

    config_type = han.HanConfig
    data_kind = rows.DOCUMENTS
    preset = "han"

    def __init__(self, make: Callable[[han.HanConfig], Network]) -> None:
        self._make = make

    def builtin(self, seed: int) -> Dataset:
        return docstrings.dataset(seed=seed)

    def plan(self, dataset: Dataset, preset: Preset) -> Plan[han.HanConfig]:
        texts = tokenizers.texts_of([example.instance["document"] for example in dataset.train])
        tokenizer = tokenizers.words(texts, vocabulary=preset.vocabulary)
        labels = classes(dataset)
        config = han.HanConfig(vocabulary=tokenizers.size(tokenizer), classes=len(labels), **preset.sizes)
        return Plan(config, labels, {han.TOKENIZER: tokenizer})

    def build(self, config: han.HanConfig) -> Network:
        return self._make(config)

    def card(self, plan: Plan[han.HanConfig]) -> Card:
        return han.card(plan.config, labels=plan.labels, tokenizer=plan.files[han.TOKENIZER])


class Images(Classifier[vit.VitConfig]):
    """Vision Transformer over grey images of one size."""

    config_type = vit.VitConfig
    data_kind = folder.IMAGES
    preset = "vit"

    def builtin(self, seed: int) -> Dataset:
        return digits.dataset(seed=seed)

    def plan(self, dataset: Dataset, preset: Preset) -> Plan[vit.VitConfig]:
        pixels = np.stack([decode(example.instance["image"]) for example in dataset.train]) / 255
        labels = classes(dataset)
        config = vit.VitConfig(
            classes=len(labels),
            rows=pixels.shape[1],
            columns=pixels.shape[2],
            mean=(round(float(pixels.mean()), 4),),
            deviation=(round(float(pixels.std()), 4),),
            **preset.sizes,
        )
        if config.rows % config.patch or config.columns % config.patch:
            raise DataError(
                f"images of {config.rows} x {config.columns} pixels cannot be cut into patches of {config.patch}; "
                "choose another preset"
            )
        return Plan(config, labels, {})

    def build(self, config: vit.VitConfig) -> Network:
        return vit.VisionTransformer(config)

    def card(self, plan: Plan[vit.VitConfig]) -> Card:
        return vit.card(plan.config, labels=plan.labels)


def classes(dataset: Dataset) -> tuple[str, ...]:
    """The classes of the training part. Raises: DataError where there is but one, or held-out ones are new."""
    labels = dataset.labels
    if len(labels) < 2:
        raise DataError(f"all {len(dataset.train)} training examples have the label {labels[0]!r}")
    for example in (*dataset.dev, *dataset.test):
        if example.label not in labels:
            raise DataError(f"the label {example.label!r} is held out, but not among the training labels {labels}")
    return labels


def decode(image: object) -> np.ndarray:
    """The bytes [row, column] of an image file."""
    assert isinstance(image, Image)
    return np.asarray(Picture.open(io.BytesIO(image.data)).convert("L"))
