"""What readers share that answer by adding up what the places of a word get: the classes' words, the sum, the loss."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from limelight_models.data import tokenizers
from limelight_models.data.dataset import Dataset, classes
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Preset, Sizes
from limelight_models.recipes.recipe import TOKENIZER

C = TypeVar("C", bound="ReaderConfig")
_NEVER = 1e-6  # probability of a word that the document lacks; ONNX optimisers drop what is nearer to 0


class ReaderConfig(Sizes):
    """Sizes. answers: the token of each class, 0 for a word that the vocabulary lacks."""

    vocabulary: int
    answers: tuple[int, ...]
    max_tokens: int = 1000
    max_characters: int = 20_000


class SummedReader(Network):
    """P(w) = Σ_{i: D_i = w} s_i over the places of a document (Kadlec et al. 2016, eq. 3); L = -log P(answer)

    logits = log P: their softmax is the probability among the classes, the rest of P being that of other words.
    """

    answers: Tensor

    def __init__(self, config: ReaderConfig) -> None:
        super().__init__()
        self.register_buffer("answers", torch.tensor(config.answers), persistent=False)

    def logits(self, weights: Tensor, ids: Tensor) -> Tensor:
        """Shapes: weights [batch, 1, 1, token], ids int64 [batch, token] -> [batch, class]."""
        places = (ids.unsqueeze(-1) == self.answers).to(weights.dtype)
        return ((weights.flatten(1, 2) @ places).squeeze(1) + _NEVER).log()

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """-Σ log P(answer), among all words of the document; an answer that is not known costs nothing."""
        found = answer.outputs["logits"].gather(1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
        return -(found * (target >= 0)).sum()


def of_answers(config: Callable[..., C], **words: str) -> Callable[[Dataset, Preset], Blueprint[C]]:
    """Make the `prepare` of a reader: the words of the training part, and which of them are classes.

    words: of tokens that the config names, by the name of its size.
    """

    def prepare(dataset: Dataset, preset: Preset) -> Blueprint[C]:
        values = [value for example in dataset.train for value in example.instance.values()]
        tokenizer = tokenizers.words(tokenizers.texts_of(values), vocabulary=preset.vocabulary)
        ids = {word: number for number, word in tokenizers.vocabulary(tokenizer).items()}
        labels = classes(dataset)
        sizes: dict[str, Any] = {name: ids.get(word, 0) for name, word in words.items()}
        answers = tuple(ids.get(label.lower(), 0) for label in labels)
        made = config(vocabulary=tokenizers.size(tokenizer), answers=answers, **sizes, **preset.sizes)
        return Blueprint(made, labels, {TOKENIZER: tokenizer})

    return prepare
