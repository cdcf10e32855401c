"""An equal start: scores are multiplied so that softmax over them begins as decided for every mechanism."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, Context
from limelight_models.attention.alignment import softmax
from limelight_models.attention.score import Score
from research.mechanisms.subject import Batch

ENTROPY = 0.9  # of softmax over the scores at the beginning, as a part of that of equal weights
LARGEST, HALVINGS = 1e4, 40
Seen = tuple[Tensor, Tensor | None]  # scores with the keys last, and the mask


def equal_start(model: nn.Module, batch: Batch) -> dict[str, float]:
    """Multiply every score by the number that gives it the common entropy on a batch: those numbers, by name.

    Left as they are: scores that are the same for every key, and kernels, whose values are weights already.
    """
    gains = {}
    for name, score in scores_of(model):
        with torch.no_grad(), seeing(score) as seen:
            model(**batch)
        gain = gain_for(seen)
        if gain != 1:
            score.register_forward_hook(lambda module, given, scores, gain=gain: gain * scores)
        gains[name] = gain
    return gains


def scores_of(model: nn.Module) -> list[tuple[str, Score]]:
    """The scores of a model's attentions, each once, in their order: an earlier one may decide what a later sees."""
    found: dict[int, tuple[str, Score]] = {}
    for name, module in model.named_modules():
        if isinstance(module, Attention) and not module.align.needs_kernel:
            found.setdefault(id(module.score), (name, module.score))
    return list(found.values())


@contextmanager
def seeing(score: Score) -> Iterator[list[Seen]]:
    """Collect the outputs of a score while this lasts."""
    seen: list[Seen] = []

    def see(module: nn.Module, given: tuple[Tensor, Tensor, Context], scores: Tensor) -> None:
        mask = given[2].mask
        if score.multidimensional:
            scores, mask = scores.movedim(-1, 0), mask
        seen.append((scores, mask))

    handle = score.register_forward_hook(see)
    try:
        yield seen
    finally:
        handle.remove()


def gain_for(seen: list[Seen], goal: float = ENTROPY) -> float:
    """The number by which scores are to be multiplied for their softmax to have the mean entropy `goal`."""
    if not seen or entropy(seen, LARGEST) > goal:
        return 1.0
    low, high = 1 / LARGEST, LARGEST
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if entropy(seen, middle) > goal else (low, middle)
    return float(f"{(low * high) ** 0.5:.4g}")


def entropy(seen: list[Seen], gain: float) -> float:
    """Mean entropy of softmax over the multiplied scores, by the logarithm of the number of keys of each query."""
    found = []
    for scores, mask in seen:
        weights = softmax(gain * scores, mask)
        count = (torch.ones_like(weights) if mask is None else mask.expand_as(weights)).sum(-1)
        each = -(weights * weights.clamp(min=1e-30).log()).sum(-1) / count.clamp(min=2).log()
        found.append(each[count > 1])
    joined = torch.cat(found)
    return float(joined.mean()) if len(joined) else 1.0
