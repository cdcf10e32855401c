"""Small inputs for the mechanisms that take no head axis: what their registry entries share."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from limelight_models.catalogue.mechanism import FEATURES as D
from limelight_models.catalogue.mechanism import Axes, Sizes

Inputs = dict[str, Tensor]
AXES: dict[str, Axes] = {
    "question": ("batch", "query", None),
    "features": ("batch", "key", None),
    "question_mask": ("batch", "query"),
    "mask": ("batch", "key"),
    "first": ("batch", "query", None),
    "second": ("batch", "key", None),
    "first_mask": ("batch", "query"),
    "second_mask": ("batch", "key"),
}


class Neighbours(nn.Module):
    """A sequence encoder in miniature: each position with the mean of all, the padding left out.

    Shapes: sequence [batch, position, d_in], mask [batch, position] -> [batch, position, d_out].
    """

    def __init__(self, *, d_in: int, d_out: int) -> None:
        super().__init__()
        self.map = nn.Linear(2 * d_in, d_out)

    def forward(self, sequence: Tensor, mask: Tensor) -> Tensor:
        known = mask.unsqueeze(-1).to(sequence.dtype)
        mean = (sequence * known).sum(1, keepdim=True) / known.sum(1, keepdim=True).clamp(min=1)
        return torch.tanh(self.map(torch.cat([sequence, mean.expand_as(sequence)], -1)))


def some(generator: torch.Generator, *shape: int, empty: int | None = None) -> Tensor:
    """A random mask; the instance `empty` (where there is more than one) has nothing in it."""
    mask = torch.rand(*shape, generator=generator) > 0.3
    if empty is not None and shape[0] > 1:
        mask[empty] = False
    return mask


def feature_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """Features of `key` positions; the first instance has none."""
    features = torch.randn(sizes.batch, sizes.key, D, generator=generator)
    return {"features": features, "mask": some(generator, sizes.batch, sizes.key, empty=0)}


def question_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """A question of `query` positions and features of `key` positions; the first instance has no features."""
    question = torch.randn(sizes.batch, sizes.query, D, generator=generator)
    asking = {"question": question, "question_mask": some(generator, sizes.batch, sizes.query)}
    return asking | feature_inputs(sizes, generator)


def pair_inputs(sizes: Sizes, generator: torch.Generator) -> Inputs:
    """Two inputs; the first of the first instance is empty, and so is the second of the last."""
    return {
        "first": torch.randn(sizes.batch, sizes.query, D, generator=generator),
        "second": torch.randn(sizes.batch, sizes.key, D, generator=generator),
        "first_mask": some(generator, sizes.batch, sizes.query, empty=0),
        "second_mask": some(generator, sizes.batch, sizes.key, empty=-1),
    }


def calling(*names: str) -> Callable[[nn.Module, Inputs], tuple[Tensor, ...]]:
    """A call with these inputs as arguments, whose outputs (pairs and records) are laid out flat."""

    def call(module: nn.Module, inputs: Inputs) -> tuple[Tensor, ...]:
        return flat(module(*(inputs[name] for name in names)))

    return call


def flat(outputs: Tensor | tuple) -> tuple[Tensor, ...]:
    """All tensors of nested tuples, in order."""
    if isinstance(outputs, Tensor):
        return (outputs,)
    return tuple(tensor for part in outputs for tensor in flat(part))
