"""Words read by their parts: letters, or pieces."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad


class Convolved(nn.Module):
    """A convolution over three parts, the largest of each feature (Kim et al. 2016, §2.2).

    x = max_j tanh(conv₃(l))_j, zeros for a word without parts

    Shapes: parts [batch, word, part, d_in], zeros where there is none; mask bool [batch, word, part]
        -> [batch, word, d_out].
    """

    def __init__(self, *, d_in: int, d_out: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(d_in, d_out, 3, padding=1)

    def forward(self, parts: Tensor, mask: Tensor) -> Tensor:
        read = self.convolution(parts.flatten(0, 1).transpose(1, 2)).tanh().transpose(1, 2)
        read = read.unflatten(0, mask.shape[:2]).masked_fill(~mask.unsqueeze(-1), -1.0)
        largest: Tensor = read.amax(2)
        return largest * mask.any(-1, keepdim=True)


class Parts(nn.Module):
    """Which smaller parts pieces of words have follows from their ids, so that a graph needs nothing but those.

    `spelled` are the parts' ids of each piece, 0 behind them; parts of the pieces of a word stand one after the other,
    without a gap, and the first `most` of them are kept.

    Shapes: piece_ids int64 [batch, word, piece] -> ids int64 [batch, word, most], 0 behind the last.
    """

    table: Tensor

    def __init__(self, spelled: Tensor, *, most: int) -> None:
        super().__init__()
        self.most = most
        self.register_buffer("table", spelled)

    def forward(self, piece_ids: Tensor) -> Tensor:
        # Zeros behind, so that there are always as many as are kept.
        ids = pad(self.table[piece_ids].flatten(2), (0, self.most))
        places = torch.arange(ids.shape[2], device=ids.device)
        # What is 0 goes behind the rest; no two places are equal, so that every sort has the same order.
        order = torch.where(ids > 0, places, places + ids.shape[2]).argsort(-1)
        return ids.gather(2, order[:, :, : self.most])
