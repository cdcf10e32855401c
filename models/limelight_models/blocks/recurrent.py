"""Recurrent encoders that never read padding, in a form that exports."""

from typing import ClassVar

import torch
from torch import Tensor, nn


class BiGru(nn.Module):
    """Bidirectional GRU over the real positions of padded sequences (Cho et al. 2014; Schuster & Paliwal 1997).

    →h_t = GRU(x_t, →h_{t-1});  ←h_t = GRU(x_t, ←h_{t+1});  h_t = [→h_t; ←h_t]

    Two one-way GRUs: the second reads each sequence turned round within its own length, so it begins at the last
    real position whatever the padding. (Packed sequences say the same, but have no form in ONNX.)

    Shapes: features [batch, position, d_in], mask [batch, position], True at real positions, which come first
        -> states [batch, position, 2 d_hidden], zeros at padding; an empty sequence gives zeros.
    """

    cell: ClassVar[type[nn.GRU] | type[nn.LSTM]] = nn.GRU

    def __init__(self, *, d_in: int, d_hidden: int) -> None:
        super().__init__()
        self.d_out = 2 * d_hidden
        self.onward = self.cell(d_in, d_hidden, batch_first=True)
        self.reverse = self.cell(d_in, d_hidden, batch_first=True)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        turned = turning(mask)
        onward, _ = self.onward(features)
        backward, _ = self.reverse(pick(features, turned))
        return torch.cat([onward, pick(backward, turned)], dim=-1) * mask.unsqueeze(-1)


class BiLstm(BiGru):
    """The same with LSTMs (Hochreiter & Schmidhuber 1997; Graves & Schmidhuber 2005)."""

    cell = nn.LSTM


def turning(mask: Tensor) -> Tensor:
    """For each position the one that takes its place when a sequence is turned round; padding stays where it is.

    Shapes: mask [batch, position] -> index [batch, position]. Turning twice changes nothing.
    """
    position = torch.arange(mask.shape[1], device=mask.device).unsqueeze(0)
    length = mask.sum(dim=1, keepdim=True)
    return torch.where(position < length, length - 1 - position, position)


def pick(features: Tensor, index: Tensor) -> Tensor:
    """Rearrange positions. Shapes: features [batch, position, d], index [batch, position] -> [batch, position, d]."""
    return features.gather(1, index.unsqueeze(-1).expand(-1, -1, features.shape[-1]))


def first(states: Tensor) -> Tensor:
    """States at the first position. Shapes: [batch, position, d] -> [batch, d]."""
    return states[:, 0]
