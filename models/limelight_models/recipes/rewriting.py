"""Shared by the sequence-to-sequence models: source and target, the generated sequence, vocabularies from the data."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from limelight_models.cards.inputs import TextInput, Tokenizer, forced_target
from limelight_models.cards.results import Written
from limelight_models.data import dates, headlines, rows, tokenizers, treebank
from limelight_models.data.dataset import Dataset
from limelight_models.recipes.prepared import described
from limelight_models.recipes.recipe import Blueprint
from limelight_models.recipes.settings import Preset
from limelight_models.recipes.sizes import Sizes
from limelight_models.tasks.brackets import Brackets
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


# Of sources, of targets, and a size (0 for one that follows from them): the tokenizers of either.
Tokenizers = Callable[[Sequence[str], Sequence[str], int], tuple[str, str]]


def prepare(config: type[C], tokenize: Tokenizers) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """Choices from the training part."""

    def prepared(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        sources, targets = (
            tokenizers.texts_of([example.instance[name] for example in dataset.train]) for name in ("text", "target")
        )
        source, target = tokenize(sources, targets, preset.vocabulary)
        begin, end = tokenizers.special_ids(target)
        made = config(
            source_vocabulary=tokenizers.size(source),
            target_vocabulary=tokenizers.size(target),
            begin=begin,
            end=end,
            **{**({} if preset.vocabulary else {"max_new_tokens": _longest(dataset, config)}), **preset.sizes},
        )
        return Blueprint(made, (), {SOURCE: source, TARGET: target})

    return prepared


def apart(sources: Sequence[str], targets: Sequence[str], size: int) -> tuple[str, str]:
    """Two vocabularies of pieces of words, or of characters where there is no size."""
    if size:
        source = tokenizers.pieces(sources, vocabulary=size, output=False)
        return source, tokenizers.pieces(targets, vocabulary=size, output=True)
    source = tokenizers.characters(sources, lower=True, output=False)
    return source, tokenizers.characters(targets, lower=False, output=True)


def shared(sources: Sequence[str], targets: Sequence[str], size: int) -> tuple[str, str]:
    """One vocabulary: a token of the source can be put out as it is."""
    target = tokenizers.shared([*sources, *targets], vocabulary=size)
    return tokenizers.reading(target, ends=False), target


def bracketed(sources: Sequence[str], targets: Sequence[str], size: int) -> tuple[str, str]:
    """Pieces of words, and every symbol of a tree."""
    return tokenizers.pieces(sources, vocabulary=size, output=False), tokenizers.symbols(targets)


def _longest(dataset: Dataset, config: type[C]) -> int:
    """The most characters of a target, and one to end it; no fewer than a model has of its own."""
    targets = tokenizers.texts_of(
        [each.instance["target"] for part in (dataset.train, dataset.dev, dataset.test) for each in part]
    )
    return max(config.max_new_tokens, 1 + max(map(len, targets)))


# Recipes of models that rewrite a text, taught by pairs of texts; `sharing`: with one vocabulary for both; `parsing`:
# what is written is a tree.
_paired = partial(described, data=rows.PAIRS)
rewriting = partial(_paired, choices=partial(prepare, tokenize=apart), task=Generate(), builtin=dates.dataset)
sharing = partial(_paired, choices=partial(prepare, tokenize=shared), task=Generate(), builtin=headlines.dataset)
parsing = partial(_paired, choices=partial(prepare, tokenize=bracketed), task=Brackets(), builtin=treebank.dataset)
