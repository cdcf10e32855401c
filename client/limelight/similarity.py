"""Late interaction: how well the tokens of a text are matched by those of another (Khattab and Zaharia 2020)."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from limelight.predictions import HiddenState, TokenVectors
from limelight.records import Record

Vectors: TypeAlias = TokenVectors | HiddenState | NDArray[Any]
_TINY = 1e-12  # of the length of a vector


@dataclass(frozen=True, eq=False)
class MaxSim(Record):
    """Similarity of a query and a document, token by token."""

    score: float
    """Sum over the query's tokens of the largest similarity to a token of the document."""
    similarities: NDArray[np.float32]
    """Cosines [query token, document token]."""
    best: NDArray[np.int64]
    """For each token of the query, the most similar one of the document."""


def maxsim(query: Vectors, document: Vectors) -> MaxSim:
    """Compare the vectors of two texts' tokens, which are divided by their length.

    Args:
        query, document: token vectors, hidden states with a vector for each entry, or arrays [token, feature].
    Raises:
        ValueError: vectors that are pooled, of different sizes, or a document without tokens.
    """
    one, other = (np.asarray(each, np.float64) for each in (query, document))
    if one.ndim != 2 or other.ndim != 2 or one.shape[1] != other.shape[1] or not len(other):
        raise ValueError(f"vectors are [token, feature] of one size, not {list(one.shape)} and {list(other.shape)}")
    one, other = (each / np.maximum(np.linalg.norm(each, axis=1, keepdims=True), _TINY) for each in (one, other))
    similarities = one @ other.T
    return MaxSim(float(similarities.max(axis=1).sum()), similarities.astype(np.float32), similarities.argmax(axis=1))
