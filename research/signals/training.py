"""One way to fit all models of the study: so many steps of Adam on a loss of example numbers."""

import random
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn


def seeded(seed: int) -> None:
    """Everything that draws begins anew."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def fit(
    model: nn.Module, loss_of: Callable[[np.ndarray], Tensor], *, count: int, steps: int, batch: int, rate: float
) -> None:
    """Train what is trainable in the model; loss_of: the loss of the examples with these numbers, of `count`."""
    model.train()
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=rate, fused=True)
    for index in shuffled(count, batch=batch, steps=steps):
        optimiser.zero_grad()
        loss_of(index).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
    model.eval()


def shuffled(count: int, *, batch: int, steps: int) -> Iterator[np.ndarray]:
    """Numbers of `steps` batches, every example once a pass."""
    order = np.random.permutation(count)
    for _ in range(steps):
        if len(order) < batch:
            order = np.concatenate([order, np.random.permutation(count)])
        yield order[:batch]
        order = order[batch:]


def in_order(count: int, batch: int) -> Iterator[np.ndarray]:
    """Numbers of all examples."""
    return (np.arange(begin, min(begin + batch, count)) for begin in range(0, count, batch))
