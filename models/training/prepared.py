"""What the data decides of a model: the same for all models that read the same."""

from collections.abc import Callable
from typing import TypeVar

from models.data import tokenizers
from models.data.dataset import Dataset, classes
from models.training.recipe import Blueprint
from models.training.settings import Preset

C = TypeVar("C")


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
        return Blueprint(made, labels, {"tokenizer.json": tokenizer})

    return prepare
