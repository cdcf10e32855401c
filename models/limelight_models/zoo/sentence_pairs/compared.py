"""Classes of a pair of texts, told from a vector of each."""

from torch import Tensor, cat, nn


def comparison(d: int, hidden: int, classes: int, dropout: float) -> nn.Sequential:
    """W relu(W' r) of what `both` gives. Shapes: [batch, 4 d] -> logits [batch, class]."""
    return nn.Sequential(nn.Linear(4 * d, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes))


def both(first: Tensor, second: Tensor) -> Tensor:
    """r = [a; b; a - b; a ⊙ b] (Mou et al. 2016). Shapes: [batch, d] each -> [batch, 4 d]."""
    return cat([first, second, first - second, first * second], -1)
