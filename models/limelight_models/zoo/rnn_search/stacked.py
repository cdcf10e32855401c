"""Stacked LSTMs (Sutskever et al. 2014): they read a source from its end, and put out a target."""

from collections.abc import Sequence

from torch import Tensor, nn

from limelight_models.blocks.recurrent import first, pick, turning


class StackedEncoder(nn.Module):
    """Stacked LSTMs that read the source from its end; the top states stand where their tokens do.

    Shapes: features [batch, source, d], mask bool [batch, source] -> top states [batch, source, d], zeros at padding,
        and of each layer the state that has read all [batch, d].
    """

    def __init__(self, d: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LSTM(d, d, batch_first=True) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, mask: Tensor) -> tuple[Tensor, list[Tensor]]:
        turned, last = turning(mask), []
        states = pick(features, turned)
        for layer in self.layers:
            states, _ = layer(self.dropout(states))
            last.append(first(pick(states, turned)))
        return pick(states, turned) * mask.unsqueeze(-1), last


class StackedDecoder(nn.Module):
    """Stacked LSTM cells: one step. Shapes: features [batch, d_in], states [batch, d] of each layer -> states."""

    def __init__(self, d: int, layers: int, dropout: float, *, d_in: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(nn.LSTMCell(size, d) for size in (d_in, *(d for _ in range(layers - 1))))
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Tensor, states: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        found = []
        for cell, state in zip(self.cells, states, strict=True):
            hidden, kept = cell(self.dropout(features), state)
            found.append((hidden, kept))
            features = hidden
        return found
