"""Output layers between features and a task's outputs."""

from torch import Tensor, nn


class Scores(nn.Module):
    """Scores of classes, or numbers, by one linear map behind dropout.

    Shapes: [..., d_in] -> [..., d_out].
    """

    def __init__(self, *, d_in: int, d_out: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(d_in, d_out)

    def forward(self, features: Tensor) -> Tensor:
        scores: Tensor = self.linear(self.dropout(features))
        return scores
