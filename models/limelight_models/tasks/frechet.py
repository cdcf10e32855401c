"""Fréchet distance of drawn pictures from real ones, in the features of a classifier of these pictures."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

_STEPS, _BATCH, _RATE = 300, 32, 3e-3
_FEATURES = 32


class Classifier(nn.Module):
    """Two convolutions, features, classes.

    Shapes: pictures [batch, row × column] -> scores [batch, class].
    """

    def __init__(self, classes: int, size: tuple[int, int]) -> None:
        super().__init__()
        rows, columns = size
        self.see = nn.Sequential(
            nn.Unflatten(1, (1, rows, columns)),
            nn.Conv2d(1, 16, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * -(-rows // 4) * -(-columns // 4), _FEATURES),
            nn.ReLU(),
        )
        self.classify = nn.Linear(_FEATURES, classes)

    def features(self, pictures: Tensor) -> Tensor:
        """Features of pictures [batch, feature]."""
        seen: Tensor = self.see(pictures)
        return seen

    def forward(self, pictures: Tensor) -> Tensor:
        scores: Tensor = self.classify(self.features(pictures))
        return scores

    @classmethod
    def taught(cls, pictures: Tensor, labels: Tensor, classes: int, size: tuple[int, int]) -> "Classifier":
        """Learn from real pictures: the same for the same pictures, and nobody else's random numbers are touched."""
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            made = cls(classes, size)
            optimizer = torch.optim.Adam(made.parameters(), _RATE)
            for _ in range(_STEPS):
                chosen = torch.randint(len(pictures), (_BATCH,))
                optimizer.zero_grad()
                cross_entropy(made(pictures[chosen]), labels[chosen]).backward()
                optimizer.step()
        return made.eval().requires_grad_(False)


def frechet(one: Tensor, other: Tensor) -> float:
    """Fréchet distance of two sets of features, as if both were normal (Heusel et al. 2017, eq. 6).

    |m - m'|² + tr(C + C' - 2 (C C')^½)

    Shapes: [picture, feature] twice.
    """
    one, other = one.double(), other.double()
    means = (one.mean(0) - other.mean(0)).square().sum()
    first, second = one.T.cov(), other.T.cov()
    values, vectors = torch.linalg.eigh(first)
    root = vectors @ torch.diag(values.clamp(min=0).sqrt()) @ vectors.T
    crossed = torch.linalg.eigvalsh(root @ second @ root).clamp(min=0).sqrt().sum()
    return float(means + first.trace() + second.trace() - 2 * crossed)
