"""What each held-out example adds to a figure, in little room, so that a study can draw examples again."""

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight_bundle.values import Array

_BITS = "bits"
_STEPS = 200  # numbers that are not whole are kept to a two-hundredth
_ORDERS = 4  # of BLEU's n-grams


@dataclass(frozen=True)
class ByExample:
    """Numbers [example, column] of held-out examples in their order, of whose sums the figure is made.

    how: `mean`, of the one column. `ratios`, of the sums of the first column and the second, of the third and the
    fourth, and so on: their mean, without those of which the second is 0. `bleu`: n-grams that are right, of one word
    to four, words written, words wanted.
    """

    numbers: Array
    how: str = "mean"

    @property
    def terms(self) -> Array:
        """What is summed, [example, term]: of BLEU the n-grams that were written too, which follow from the words."""
        if self.how != "bleu":
            return self.numbers
        written = np.maximum(self.numbers[:, [_ORDERS]] - np.arange(_ORDERS), 0)
        return np.concatenate([self.numbers, written], 1)

    @property
    def value(self) -> float:
        """The figure."""
        return float(self.figure(self.terms.sum(0, keepdims=True), len(self.numbers))[0])

    def figure(self, sums: Array, count: int) -> Array:
        """The figure [draw], of sums [draw, term] over so many examples."""
        return _HOW[self.how](sums, count)

    def packed(self) -> dict[str, Any]:
        """As JSON: bits, or the smallest whole numbers that hold them, column after column."""
        columns = np.atleast_2d(self.numbers.T)
        whole = bool((columns == np.round(columns)).all())
        scale = 1 if whole else _STEPS
        numbers = np.round(columns * scale).astype(np.int64)
        low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
        if low >= 0 and high <= 1:
            kind, data = _BITS, np.packbits(numbers.astype(bool))
        else:
            small = np.result_type(np.min_scalar_type(low), np.min_scalar_type(high)).newbyteorder("<")
            kind, data = small.str, numbers.astype(small)
        return {
            "how": self.how,
            "columns": len(numbers),
            "examples": numbers.shape[1],
            "scale": scale,
            "kind": kind,
            "data": base64.b64encode(data.tobytes()).decode(),
        }


def unpacked(content: Mapping[str, Any]) -> ByExample:
    """Undo `ByExample.packed`."""
    shape, data = (content["columns"], content["examples"]), base64.b64decode(content["data"])
    if content["kind"] == _BITS:
        numbers = np.unpackbits(np.frombuffer(data, np.uint8), count=shape[0] * shape[1])
    else:
        numbers = np.frombuffer(data, content["kind"])
    return ByExample(numbers.reshape(shape).T / content["scale"], content["how"])


def mean(each: Mapping[int, float | bool] | Iterable[bool]) -> ByExample:
    """Of a mean: the value of each example, by its index or in their order."""
    values = [each[index] for index in sorted(each)] if isinstance(each, Mapping) else list(each)
    return ByExample(np.array(values, float).reshape(-1, 1))


def ratios(each: Mapping[int, Iterable[float]]) -> ByExample:
    """Of ratios of sums: what each example adds to them, by its index."""
    return ByExample(np.array([list(each[index]) for index in sorted(each)], float), "ratios")


def _mean(sums: Array, count: int) -> Array:
    found: Array = sums[:, 0] / count
    return found


def _ratios(sums: Array, count: int) -> Array:
    above, below = sums[:, ::2], sums[:, 1::2]
    there = below > 0
    each = np.divide(above, below, out=np.zeros(above.shape), where=there)
    found: Array = each.sum(1) / np.maximum(there.sum(1), 1)
    return found


def _bleu(sums: Array, count: int) -> Array:
    """Corpus BLEU as sacrebleu has it by default, 0 to 100: of orders without a right n-gram the first counts as half
    a right one, the next as a quarter, and so on.
    """
    right, lengths, written = np.split(sums, (_ORDERS, _ORDERS + 2), 1)
    words, wanted = lengths.T
    share = np.where(right > 0, right, 0.5 ** np.cumsum(right == 0, 1)) / np.maximum(written, 1)
    brevity = np.exp(np.minimum(0, 1 - wanted / np.maximum(words, 1)))
    found: Array = 100 * brevity * np.exp(np.log(share).mean(1)) * (right.any(1) & written.all(1))
    return found


_HOW: Mapping[str, Callable[[Array, int], Array]] = {"mean": _mean, "ratios": _ratios, "bleu": _bleu}
