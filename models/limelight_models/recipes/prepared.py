"""Choices of a model that follow from the data, and recipes: the same for all models that read the same."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from limelight_models.cards.card import Card
from limelight_models.data import rows, tokenizers
from limelight_models.data.dataset import DataError, Dataset, classes
from limelight_models.data.folder import IMAGES
from limelight_models.data.images import grey_levels
from limelight_models.network import Network
from limelight_models.recipes.recipe import TOKENIZER, Blueprint, Recipe
from limelight_models.recipes.settings import Preset
from limelight_models.tasks.classify import Classify

C = TypeVar("C")
CLASSIFY = Classify()


def fitting(config: Callable[..., C], **sizes: Any) -> C:
    """Make a config. Raises: DataError where what the data are and what the preset has do not go together."""
    try:
        return config(**sizes)
    except ValueError as error:
        raise DataError(f"{error}; choose another preset") from error


def of_texts(
    config: Callable[..., C], tokenize: Callable[..., str] = tokenizers.words
) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """Make the `prepare` of a model that puts texts into classes: the training part's words, or pieces, and classes.

    config: made of `vocabulary`, `classes` and the preset's sizes. tokenize: makes a tokenizer of texts, in JSON.
    """

    def prepare(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        values = [value for example in dataset.train for value in example.instance.values()]
        tokenizer = tokenize(tokenizers.texts_of(values), vocabulary=preset.vocabulary)
        labels = classes(dataset)
        made = config(vocabulary=tokenizers.size(tokenizer), classes=len(labels), **preset.sizes)
        return Blueprint(made, labels, {TOKENIZER: tokenizer})

    return prepare


def of_pictures(config: Callable[..., C]) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """Make the `prepare` of a model that puts pictures into classes: the training part's size, brightness and classes.

    config: made of `classes`, what `GreyLevels.sizes` says, and the preset's sizes. `prepare` raises DataError where
    pictures of this size cannot be cut as the preset has it.
    """

    def prepare(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        pixels = grey_levels(example.instance["image"] for example in dataset.train)
        labels = classes(dataset)
        return Blueprint(fitting(config, classes=len(labels), **pixels.sizes, **preset.sizes), labels, {})

    return prepare


def described(
    config: type[Any],
    network: Callable[..., Network],
    card: Callable[[Any, Blueprint[Any]], Card],
    presets: Mapping[str, Preset],
    *,
    choices: Callable[[type[Any]], Callable[[Dataset, Preset], Blueprint[Any]]],
    **more: Any,
) -> Recipe[Any]:
    """A recipe whose choices follow from its config's class alone. choices: makes its `prepare`. more: other fields."""
    return Recipe(config, network, card, choices(config), presets, **more)


# Recipes of models that put texts, or what is made of texts, and pictures into classes; each says what comes with it.
classifying_texts = partial(described, choices=of_texts, task=CLASSIFY, data=rows.TEXTS)
classifying_pictures = partial(described, choices=of_pictures, task=CLASSIFY, data=IMAGES)
