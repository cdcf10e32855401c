"""Times of words in a recording, from attention: dynamic time warping of a model's alignment heads.

The method is that of Whisper (Radford et al. 2022; its own `timing.py`), of the weights that a server returns.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limelight.attended import Attended
from limelight.labels import LabelSet
from limelight.records import Record

Floats = NDArray[np.float64]

_FILTER = 7  # frames of the median filter, as of every published Whisper
_DIAGONAL, _UP, _RIGHT = 0, 1, 2  # to the next row and column; to the next row; to the next column


@dataclass(frozen=True)
class TimedWord(Record):
    """A word of a written text, and when it is said."""

    text: str
    start: float
    """Seconds from the start of the recording."""
    end: float
    """Seconds from the start of the recording."""


def word_times(answer: Attended, name: str = "alignment") -> tuple[TimedWord, ...]:
    """Return the words of a transcript with the times at which they are said.

    A word is what white space parts. It starts where the alignment reaches its first token, and ends where the next
    word starts.

    Args:
        answer: of `attend` with `maps="alignment"`, without a selection of heads or queries.
        name: of a map from output tokens to frames.
    Raises:
        KeyError: the answer has no such map.
        ValueError: the map is not of all output tokens and the frames of a recording.
    """
    attention = answer[name]
    tokens, frames = attention.query, attention.key
    if tokens.kind != "output_steps" or frames.kind != "frames" or attention.weights.ndim != 3:
        raise ValueError(f"map {name!r} is from {tokens.kind} to {frames.kind}; it must be from output_steps to frames")
    if tokens.indices is not None or frames.indices is not None or attention.key_index is not None:
        raise ValueError(f"map {name!r} is a selection; ask for all of its queries and keys")
    written = np.flatnonzero(~tokens.special)
    if not len(written):
        return ()
    # The row of the end token says where the last word ends.
    rows = slice(written[0], min(written[-1] + 2, len(tokens)))
    heard = ~frames.special
    if not heard.any() or len(frames.starts) != len(frames) or len(tokens.starts) != len(tokens):
        raise ValueError(f"map {name!r} does not say when its frames, or where its tokens, begin")
    weights = attention.weights[:, rows][:, :, heard].astype(np.float64)
    reached = frames.starts[heard][first_frames(weights)] / 1000
    end = float(frames.ends[heard][-1]) / 1000
    begins = _begins_of_words(tokens, written)
    starts = [float(reached[place - written[0]]) for place in begins]
    last = written[-1] + 1 - written[0]
    ends = [*starts[1:], float(reached[last]) if last < len(reached) else end]
    text = answer.prediction.text or ""
    spans = itertools.pairwise([*(int(tokens.starts[place]) for place in begins), len(text)])
    return tuple(
        TimedWord(text[begin:behind].strip(), start, stop)
        for (begin, behind), start, stop in zip(spans, starts, ends, strict=True)
    )


def _begins_of_words(tokens: LabelSet, written: NDArray[np.intp]) -> list[int]:
    """Return the first token of each word: white space belongs to no token, so it leaves a gap."""
    inner = [int(place) for before, place in itertools.pairwise(written) if tokens.starts[place] > tokens.ends[before]]
    return [int(written[0]), *inner]


def first_frames(weights: Floats) -> NDArray[np.intp]:
    """Align tokens with frames, both in order, and return the first frame of each token.

    Weights are standardised over the tokens, smoothed over time, and averaged over the heads; the alignment is the path
    of the largest sum.

    Shapes: weights [head, token, frame], over the frames of the recording -> [token].
    """
    weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    deviations = weights.std(axis=-2, keepdims=True)
    standard = (weights - weights.mean(axis=-2, keepdims=True)) / np.where(deviations == 0, 1, deviations)
    tokens, frames = warp(-_smoothed(standard).mean(axis=0))
    return frames[np.flatnonzero(np.diff(tokens, prepend=-1))]


def _smoothed(values: Floats) -> Floats:
    """Apply a median filter along the last axis, whose ends are mirrored."""
    half = _FILTER // 2
    if values.shape[-1] <= half:
        return values
    padded = np.pad(values, ((0, 0), (0, 0), (half, half)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, _FILTER, axis=-1)
    smoothed: Floats = np.median(windows, axis=-1)
    return smoothed


def warp(costs: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find the cheapest path from the first to the last row and column (dynamic time warping).

    Each step goes to the next row, the next column, or both. Of equal costs, the next column comes first.

    Returns: the rows and the columns of the path.
    """
    rows, columns = costs.shape
    padded = np.full((rows + 1, columns + 1), np.inf)
    padded[1:, 1:] = costs
    steps = np.full((rows + 1, columns + 1), _RIGHT, np.int8)
    # Sums by row, of the last two antidiagonals; in float32, as Whisper compares them.
    before, earlier = np.full(rows + 1, np.inf, np.float32), np.full(rows + 1, np.inf, np.float32)
    earlier[0] = 0
    for place in range(2, rows + columns + 1):
        row = np.arange(max(1, place - columns), min(rows, place - 1) + 1)
        column = place - row
        diagonal, up, left = earlier[row - 1], before[row - 1], before[row]
        step = np.where(
            (diagonal < up) & (diagonal < left), _DIAGONAL, np.where((up < diagonal) & (up < left), _UP, _RIGHT)
        )
        steps[row, column] = step
        earlier, before = before, np.full(rows + 1, np.inf, np.float32)
        before[row] = padded[row, column] + np.choose(step, (diagonal, up, left))
    path = [(rows, columns)]
    while path[-1] != (1, 1):
        last_row, last_column = path[-1]
        taken = int(steps[last_row, last_column])
        path.append((last_row - (taken != _RIGHT), last_column - (taken != _UP)))
    found: NDArray[np.intp] = np.array(path[::-1]) - 1
    return found[:, 0], found[:, 1]
