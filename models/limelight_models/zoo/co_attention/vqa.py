"""Shared by the networks of visual question answering: the words of a question."""

from torch import Tensor, nn

from limelight_models.blocks.recurrent import pick
from limelight_models.recipes.answering import VqaConfig


class Words(nn.Module):
    """The words of a question as vectors, zeros at padding. Shapes: ids, mask [batch, word] -> [batch, word, d]."""

    def __init__(self, config: VqaConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.d, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.5)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(ids)) * mask.unsqueeze(-1)
        return embedded


class Lstm(nn.Module):
    """Words read onward by an LSTM: every state, zeros at padding, which comes last.

    Shapes: features [batch, word, d], mask [batch, word] -> [batch, word, d].
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.cell = nn.LSTM(d, d, batch_first=True)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = self.cell(features)[0]
        return states * mask.unsqueeze(-1)


class PlacedWords(nn.Module):
    """The words of a question, each with its place: E x_i + P_i (Devlin et al. 2019, §3).

    Shapes: ids int64 [batch, word] -> [batch, word, d].
    """

    def __init__(self, config: VqaConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.d, padding_idx=0)
        self.places = nn.Embedding(config.max_tokens, config.d)
        for table in (self.words, self.places):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, ids: Tensor) -> Tensor:
        placed: Tensor = self.words(ids) + self.places.weight[: ids.shape[1]]
        return placed


def last_word(states: Tensor, mask: Tensor) -> Tensor:
    """The state of a question's last word. Shapes: states [batch, word, d], mask [batch, word] -> [batch, 1, d]."""
    return pick(states, (mask.sum(1, keepdim=True) - 1).clamp(min=0))
