"""Accuracy of a trained model with its weights permuted among the allowed keys."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from limelight_models.attention.align import Align


@contextmanager
def permuted(model: nn.Module) -> Iterator[list[int]]:
    """Shuffle the weights of every alignment while this lasts (Jain and Wallace 2019, §4.2.1); counts how often."""
    done: list[int] = []

    def shuffle(module: nn.Module, given: tuple, weights: Tensor) -> Tensor:
        done.append(1)
        mask = given[1]
        allowed = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
        return shuffled(weights, allowed)

    inner = {id(child) for align in _alignments(model) for child in align.modules() if child is not align}
    handles = [each.register_forward_hook(shuffle) for each in _alignments(model) if id(each) not in inner]
    try:
        yield done
    finally:
        for handle in handles:
            handle.remove()


def _alignments(model: nn.Module) -> list[Align]:
    return [each for each in model.modules() if isinstance(each, Align)]


def shuffled(weights: Tensor, allowed: Tensor) -> Tensor:
    """Each row's weights in another order among its allowed keys, which is drawn. Shapes: both [..., key]."""
    places = torch.rand(weights.shape).masked_fill(~allowed, 2).argsort(-1)  # allowed ones first, in a drawn order
    own = torch.where(allowed, 0, 1).argsort(dim=-1, stable=True)  # allowed ones first, in their order
    return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, own))
