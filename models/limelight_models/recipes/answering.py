"""Shared by the models of visual question answering: picture and question, and the sizes that the data decide."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from torch import nn

from limelight_models.blocks.regions import Regions
from limelight_models.blocks.transformer import BERT_EPSILON, PostNormLayer
from limelight_models.cards.language import ImageInput, LabelSet, TextInput, Tokenizer
from limelight_models.data import rows, tokenizers
from limelight_models.data.canvas import questions
from limelight_models.data.dataset import Dataset, classes
from limelight_models.data.images import grey_levels
from limelight_models.recipes.prepared import described
from limelight_models.recipes.recipe import TOKENIZER, Blueprint
from limelight_models.recipes.settings import Preset
from limelight_models.recipes.sizes import TextSizes
from limelight_models.recipes.vision_pretraining import learn_to_see
from limelight_models.tasks.classify import Classify

ANSWER = Classify(given="question")
_REGIONS = 160  # of a picture, at most


class VqaConfig(TextSizes):
    """Sizes that all of them have.

    rows, columns: of the picture, in pixels; mean, deviation: of pixels from 0 to 1. taught: whether its eye learns the
    names of handwritten digits before anything is asked. channels, strides: of its convolutions; the product of the
    strides is a cell's size.
    """

    rows: int
    columns: int
    mean: tuple[float, ...] = (0.5,)
    deviation: tuple[float, ...] = (0.5,)
    d: int = 64
    dropout: float = 0.1
    taught: bool = False
    channels: tuple[int, ...] = (16, 32, 64)
    strides: tuple[int, ...] = (2, 3)
    max_tokens: int = 40
    max_characters: int = 1000
    max_pixels: int = 16_777_216

    def picture(self, summary: str = "A picture; it is scaled to the model's size.") -> ImageInput:
        """The picture input."""
        return ImageInput.of(self, summary=summary)

    def regions(self, around: int) -> Regions:
        """The picture's regions."""
        return Regions(
            channels=self.channels,
            strides=self.strides,
            rows=self.rows,
            columns=self.columns,
            d=self.d,
            around=around,
        )

    def question(self, tokenizer: Tokenizer) -> TextInput:
        """The question input."""
        return TextInput(
            name="question",
            summary="A question about it, or a statement that is true of it or not.",
            tokenizer=tokenizer,
            max_tokens=self.max_tokens,
            prefix="question",
            dimension="question",
        )


class BertVqaConfig(VqaConfig):
    """Sizes of those made of layers of BERT. around: how many cells further each region sees."""

    layers: int = 2
    heads: int = 4
    d_hidden: int = 128
    around: int = 2

    def layer(self) -> PostNormLayer:
        """Self-attention and a position-wise network (Devlin et al. 2019, §3)."""
        return PostNormLayer(
            d_model=self.d,
            heads=self.heads,
            d_hidden=self.d_hidden,
            dropout=self.dropout,
            act=nn.GELU,
            epsilon=BERT_EPSILON,
        )


C = TypeVar("C", bound=VqaConfig)


def of_picture(picture: ImageInput, regions: Regions) -> LabelSet:
    """The regions as places of the picture."""
    return picture.cells(*regions.cells.grid, name="regions")


def few_regions(rows: int, columns: int, cell: int) -> tuple[int, int]:
    """A picture's size in whole cells, and smaller where there are too many of them."""
    shrunk = min(1.0, cell * (_REGIONS / (rows * columns)) ** 0.5)
    return whole(rows * shrunk, cell), whole(columns * shrunk, cell)


def frames_of(rows: int, columns: int, cell: int) -> tuple[int, int]:
    """The size of a film, one picture of square frames side by side: each is in whole cells."""
    frames = max(1, round(columns / rows))
    size, _ = few_regions(rows, rows, cell)
    return size, frames * size


def whole(size: float, cell: int) -> int:
    """So many pixels, in whole cells."""
    return max(1, round(size / cell)) * cell


def prepare(
    config: type[C], size: Callable[[int, int, int], tuple[int, int]] = few_regions
) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """Choices from the training part: words, classes, and the pictures' brightness and size."""

    def prepared(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        pixels = grey_levels(example.instance["image"] for example in dataset.train)
        cell = math.prod(preset.sizes.get("strides", config.strides))
        rows, columns = size(pixels.rows, pixels.columns, cell)
        texts = tokenizers.texts_of([example.instance["question"] for example in dataset.train])
        tokenizer = tokenizers.words(texts, vocabulary=preset.vocabulary)
        labels = classes(dataset)
        made = config(
            vocabulary=tokenizers.size(tokenizer),
            classes=len(labels),
            **replace(pixels, rows=rows, columns=columns).sizes,
            **preset.sizes,
        )
        return Blueprint(made, labels, {TOKENIZER: tokenizer})

    return prepared


# The recipe of a network that answers questions about pictures, with an eye that learns to see first.
answering = partial(
    described, choices=prepare, task=ANSWER, data=rows.QUESTIONS, builtin=questions.dataset, start=learn_to_see
)
