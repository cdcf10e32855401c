"""Weights that replace a map's, and what answers with them are compared by."""

from collections.abc import Iterable, Sequence

import numpy as np

from bundle.rows import Row
from bundle.values import Array
from export.execution.random_inputs import RandomInputs
from export.interface import BATCH
from export.verification.verify import case_sizes
from models.cards.card import Card

_ROWS = 3
_ALLOWED = 1e-5  # absolute difference of weights


def rows_of_some_sizes(card: Card) -> Sequence[Row]:
    """Draw rows of several sizes, where a model takes any."""
    random_inputs, (sizes, _) = RandomInputs(card, seed=3), case_sizes(card)
    return random_inputs.rows_of_mixed_sizes(sizes, _ROWS) if sizes else random_inputs.rows({BATCH: _ROWS})


def sharper(weights: Array) -> Array:
    """Return other weights [..., key] over the same keys: their squares, FLOAT32 with the sum 1, or 0 as before."""
    squares = weights.astype(np.float64) ** 2
    found: Array = (squares / np.maximum(squares.sum(-1, keepdims=True), 1e-30)).astype(np.float32)
    return found


def are_same(pairs: Iterable[tuple[Array, Array]]) -> bool:
    """Tell whether both of each pair have the same shape, and the same numbers but for rounding."""
    return all(one.shape == other.shape and np.allclose(one, other, rtol=1e-4, atol=_ALLOWED) for one, other in pairs)
