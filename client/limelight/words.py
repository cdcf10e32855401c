"""Words of tokens: pieces of a word become one entry of an axis."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limelight.labels import LabelSet


@dataclass(frozen=True)
class WordAxis:
    """The words of an axis of tokens: labels of the words, and the first token and the end of each."""

    labels: LabelSet
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    def sum(self, values: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
        """Sum values over the tokens of each word."""
        before = np.cumsum(np.moveaxis(values, axis, 0), axis=0, dtype=np.float64)
        before = np.concatenate([np.zeros_like(before[:1]), before])
        summed: NDArray[np.float32] = (before[self.ends] - before[self.begins]).astype(np.float32)
        return np.moveaxis(summed, 0, axis)

    def mean(self, values: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
        """Average values over the tokens of each word."""
        shape = [1] * values.ndim
        shape[axis] = -1
        averaged: NDArray[np.float32] = self.sum(values, axis) / (self.ends - self.begins).reshape(shape)
        return averaged.astype(np.float32)


def words_of(labels: LabelSet, *, special: bool) -> WordAxis:
    """Find the words of an axis; an axis that does not state words has one for each entry.

    Args:
        special: whether to keep special tokens, each as an entry of its own.
    """
    words = labels.words if len(labels.words) else np.arange(len(labels))
    # Special tokens beside each other have one number, and are entries of their own.
    begins = np.flatnonzero((np.diff(words, prepend=-2) != 0) | (words < 0))
    ends = np.append(begins[1:], len(words))
    if not special:
        kept = (words[begins] >= 0) & ~labels.special[begins]
        begins, ends = begins[kept], ends[kept]
    joined = LabelSet(
        name=labels.name,
        kind=labels.kind,
        labels=tuple(labels.joined(begin, end) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)),
        starts=labels.starts[begins] if len(labels.starts) else labels.starts,
        ends=labels.ends[ends - 1] if len(labels.ends) else labels.ends,
        flags=labels.flags[begins] if len(labels.flags) else labels.flags,
        inputs=labels.inputs,
        input_indices=labels.input_indices[begins] if len(labels.input_indices) else labels.input_indices,
        grid=labels.grid,
    )
    return WordAxis(joined, begins, ends)
