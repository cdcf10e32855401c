"""Words by their letters: which letters a word has follows from its id, so a graph needs nothing but the ids."""

import torch
from torch import Tensor, nn

from limelight_models.blocks.convolved import Convolved
from limelight_models.catalogue.testbed.text import Texts
from limelight_models.data import tokenizers

MOST = 12  # letters of a word that are read
NAMES = tuple(f"letter {number + 1}" for number in range(MOST))


class Letters(nn.Module):
    """An embedding of each letter of each word, beside where in the word it stands.

    l_j = E x_j + p_j. Padding and words that the vocabulary lacks have no letters.

    Shapes: token_ids int64 [batch, token]
        -> letters [batch, token, letter, d], mask bool [batch, token, letter].
    """

    table: Tensor

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        known = tokenizers.vocabulary(texts.tokenizer)
        alphabet = sorted({letter for word in known.values() for letter in word})
        number = {letter: place + 1 for place, letter in enumerate(alphabet)}
        table = torch.zeros(texts.vocabulary, MOST, dtype=torch.int64)
        for index, word in known.items():
            table[index, : len(word[:MOST])] = torch.tensor([number[letter] for letter in word[:MOST]])
        self.register_buffer("table", table)
        self.embedding = nn.Embedding(len(alphabet) + 1, texts.d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.place = nn.Parameter(0.3 * torch.randn(MOST, texts.d))

    def forward(self, token_ids: Tensor) -> tuple[Tensor, Tensor]:
        letters = self.table[token_ids]
        mask = letters > 0
        return (self.embedding(letters) + self.place) * mask.unsqueeze(-1), mask


class Spelled(nn.Module):
    """A word from its letters alone.

    Shapes: token_ids int64 [batch, token] -> [batch, token, d].
    """

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self.letters = Letters(texts)
        self.read = Convolved(d_in=texts.d, d_out=texts.d)

    def forward(self, token_ids: Tensor) -> Tensor:
        word: Tensor = self.read(*self.letters(token_ids))
        return word
