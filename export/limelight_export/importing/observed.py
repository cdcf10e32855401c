"""Shapes of a model's outputs, observed at several sizes: the authority on them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from limelight_export.errors import ExportError
from limelight_export.interface import BATCH, Axes, max_sizes
from limelight_export.surgery.derived_sizes import equals_size
from limelight_export.tracing.example_sizes import example_sizes, infer_axes
from limelight_export.verification.verify import largest_sizes
from limelight_models.cards.card import Card

_LISTED = 20
# Of a row that shows whether axes still grow there, and whether a graph's answers are right there.
LARGEST_SIZE = 512


@dataclass(frozen=True)
class Observed:
    """A tensor that a model returned at several sizes.

    Attributes:
        shapes: at each of `sizes`, which hold the batch and every axis that varies.
        is_inner: whether it is inside the model, and an output only where a map names it.
        declared: the size of each axis as the model states it, where it is one of others: `Min(64, length)`.
        symbols: what an axis of `sizes` is called there.
    """

    name: str
    dtype: np.dtype[Any]
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[Mapping[str, int], ...]
    is_inner: bool = False
    declared: Axes = ()
    symbols: Mapping[str, str] = field(default_factory=dict)

    @property
    def axes(self) -> Axes:
        """Its axes: the name of the size that each follows, or its own size."""
        axes = infer_axes(self.name, self.shapes, self.sizes)
        for place, (axis, declared) in enumerate(zip(axes, self.declared, strict=False)):
            symbol = self.symbols.get(str(axis))
            if symbol and isinstance(declared, str) and not equals_size(declared, symbol):
                axes = (*axes[:place], f"{self.name}_{place}", *axes[place + 1 :])
        # With a fixed batch of 1, nothing varies along the first axis.
        is_single = all(each[BATCH] == 1 for each in self.sizes)
        return (BATCH, *axes[1:]) if is_single and axes and axes[0] == 1 else axes


def observed_sizes(card: Card) -> tuple[dict[str, int], ...]:
    """Return sizes at which to run a model of a card's inputs: two small ones, all different, and the largest."""
    first = example_sizes(max_sizes(card))
    return first, example_sizes(max_sizes(card), avoid=first), {BATCH: 2, **largest_sizes(card, LARGEST_SIZE)}


def find_observed(observed: Mapping[str, Observed], name: str, what: str) -> Observed:
    """Return a tensor by name. Raises ExportError, which says that `what` names it, where there is none."""
    if name not in observed:
        raise ExportError(
            f"{what} names the output {name!r}, which the model does not return; it returns {listed(observed)}"
        )
    return observed[name]


def shape_at(tensor: Observed) -> str:
    """Describe shapes with the sizes at which they were seen: the first, and the largest where axes vary."""
    seen = {str(list(shape)): sizes for shape, sizes in zip(tensor.shapes, tensor.sizes, strict=True)}
    some = [*seen.items()][:: max(1, len(seen) - 1)]
    return ", and ".join(f"{shape} at {', '.join(f'{each} {size}' for each, size in at.items())}" for shape, at in some)


def listed(names: Iterable[object]) -> str:
    """List names in a message, the first twenty of many."""
    found = [repr(each) for each in names]
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return ", ".join(found[:_LISTED]) + more if found else "nothing"
