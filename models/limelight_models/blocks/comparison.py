"""Two vectors compared, as Mou et al. (2016) do: W relu(W' [a; b; a - b; a ⊙ b])."""

import torch
from torch import Tensor, nn


def both(first: Tensor, second: Tensor) -> Tensor:
    """[a; b; a - b; a ⊙ b]. Shapes: [batch, d] each -> [batch, 4 d]."""
    return torch.cat([first, second, first - second, first * second], -1)


def comparison(d: int, *, hidden: int, classes: int, dropout: float) -> nn.Sequential:
    """W relu(W' r) of what `both` gives. Shapes: [batch, 4 d] -> logits [batch, class]."""
    return nn.Sequential(nn.Linear(4 * d, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes))
