"""Shared by the sequence-to-sequence models: source and target, the generated sequence, vocabularies from the data."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from limelight_models.cards.inputs import TextInput, Tokenizer, forced_target
from limelight_models.cards.results import Written
from limelight_models.data import dates, headlines, rows, tokenizers
from limelight_models.data.dataset import Dataset
from limelight_models.recipes.prepared import described
from limelight_models.recipes.recipe import Blueprint
from limelight_models.recipes.settings import Preset
from limelight_models.recipes.sizes import Sizes
from limelight_models.tasks.generate import Generate

SOURCE, TARGET = "source.json", "target.json"


class Seq2SeqConfig(Sizes):
    """Sizes that all of them have. begin, end: the token put in first, and the one that ends a sequence."""

    source_vocabulary: int
    target_vocabulary: int
    begin: int
    end: int
    max_source: int = 128
    max_new_tokens: int = 64
    max_characters: int = 1000

    def source(self, files: Mapping[str, str]) -> TextInput:
        """The source input."""
        return TextInput(
            summary="What is to be rewritten.",
            tokenizer=Tokenizer(text=files[SOURCE], file=SOURCE),
            max_tokens=self.max_source,
            prefix="source",
            dimension="source",
        )

    def target(self, files: Mapping[str, str]) -> TextInput:
        """The input of a forced output."""
        return forced_target(Tokenizer(text=files[TARGET], file=TARGET), self.max_new_tokens)

    def written(self, files: Mapping[str, str], **more: Any) -> Written:
        """The generated text. more: fields of `Written` that models differ in."""
        return Written.by(self, self.target(files).tokenizer, **more)


C = TypeVar("C", bound=Seq2SeqConfig)


def prepare(config: type[C]) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """Choices from the training part: two vocabularies of pieces of words, or of characters where the preset has no
    size for them.
    """

    def prepared(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        sources, targets = (
            tokenizers.texts_of([example.instance[name] for example in dataset.train]) for name in ("text", "target")
        )
        if preset.vocabulary:
            source = tokenizers.pieces(sources, vocabulary=preset.vocabulary, output=False)
            target = tokenizers.pieces(targets, vocabulary=preset.vocabulary, output=True)
        else:
            source = tokenizers.characters(sources, lower=True, output=False)
            target = tokenizers.characters(targets, lower=False, output=True)
        return _blueprint(config, dataset, preset, source, target)

    return prepared


def prepare_shared(config: type[C]) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """The same with one vocabulary: a token of the source can be put out as it is."""

    def prepared(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        texts = [example.instance[name] for example in dataset.train for name in ("text", "target")]
        target = tokenizers.shared(tokenizers.texts_of(texts), vocabulary=preset.vocabulary)
        return _blueprint(config, dataset, preset, tokenizers.reading(target, ends=False), target)

    return prepared


def _blueprint(config: type[C], dataset: Dataset, preset: Preset, source: str, target: str) -> Blueprint[C]:
    begin, end = tokenizers.special_ids(target)
    made = config(
        source_vocabulary=tokenizers.size(source),
        target_vocabulary=tokenizers.size(target),
        begin=begin,
        end=end,
        **{**({} if preset.vocabulary else {"max_new_tokens": _longest(dataset, config)}), **preset.sizes},
    )
    return Blueprint(made, (), {SOURCE: source, TARGET: target})


def _longest(dataset: Dataset, config: type[C]) -> int:
    """The most characters of a target, and one to end it; no fewer than a model has of its own."""
    targets = tokenizers.texts_of(
        [each.instance["target"] for part in (dataset.train, dataset.dev, dataset.test) for each in part]
    )
    return max(config.max_new_tokens, 1 + max(map(len, targets)))


# Recipes of models that rewrite a text, taught by pairs of texts; `sharing`: with one vocabulary for both.
rewriting = partial(described, choices=prepare, task=Generate(), data=rows.PAIRS, builtin=dates.dataset)
sharing = partial(described, choices=prepare_shared, task=Generate(), data=rows.PAIRS, builtin=headlines.dataset)
