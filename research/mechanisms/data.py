"""The data of a task: rows of token ids, targets step by step, and the evidence for each step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from limelight_bundle.text import Encoded, Encoder
from limelight_bundle.values import Pair, Sentences, Text
from limelight_models.catalogue.testbed.text import Texts
from limelight_models.data.dataset import Example
from limelight_models.data.gold import Gold, Span

Row = dict[str, np.ndarray]  # by tensor name: ids [token] or [sentence, word]
NO_TARGET = -100  # what cross-entropy leaves out


@dataclass(frozen=True)
class Part:
    """Examples of one part.

    targets: int64 [step], the right class of each step. gold: bool [step, key], the right places of each step, none
    where nothing is known of it; empty where nothing is known of any.
    """

    rows: list[Row]
    targets: list[np.ndarray]
    gold: list[np.ndarray]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, kw_only=True)
class TaskData:
    """A task: its texts (tokenizer, classes), its parts, and one of longer texts than any other where there is one.

    of: a fingerprint; results of other data do not count.
    """

    texts: Texts
    train: Part
    dev: Part
    test: Part
    longer: Part | None = None
    of: str = ""


def tokens_of(encoder: Encoder, texts: Sequence[str]) -> list[Encoded]:
    """The tokens of texts; raises ValueError where one is cut, since gold places would be lost."""
    found = encoder.encode(texts)
    if any(each.truncated for each in found):
        raise ValueError("a text is longer than the tokens that are read")
    return found


def text_of(example: Example, name: str) -> str:
    """A text of an example by its name; `pair.first` and `pair.second` for those of a pair."""
    match example.instance[name.partition(".")[0]]:
        case Text(text):
            return text
        case Pair(first, second):
            return first if name.endswith("first") else second
        case other:
            raise TypeError(f"{name} is no text but a {type(other).__name__}")


def sentences_of(example: Example, name: str) -> tuple[str, ...]:
    """The sentences of a document."""
    value = example.instance[name]
    assert isinstance(value, Sentences)
    return value.texts


def keys_of(gold: Gold, encoded: Encoded) -> np.ndarray:
    """Which tokens share a character with a right place, bool [key]."""
    starts, ends = np.array(encoded.starts), np.array(encoded.ends)
    spans = [place for place in gold.right if isinstance(place, Span)]
    return np.any([(starts < each.end) & (ends > each.start) for each in spans], axis=0)


def collate(part: Part, index: np.ndarray) -> dict[str, Tensor]:
    """Rows padded to the longest; every `…ids` gets its `…mask`."""
    batch: dict[str, Tensor] = {}
    for name in part.rows[0]:
        ids = padded([part.rows[i][name] for i in index], 0)
        batch[name] = torch.from_numpy(ids)
        batch[name.removesuffix("ids") + "mask"] = torch.from_numpy(ids != 0)
    return batch


def targets_of(part: Part, index: np.ndarray) -> Tensor:
    """Targets [batch, step], NO_TARGET at padding."""
    return torch.from_numpy(padded([part.targets[i] for i in index], NO_TARGET))


def gold_of(part: Part, index: np.ndarray) -> np.ndarray:
    """Right places, bool [batch, step, key]."""
    return padded([part.gold[i] for i in index], False)


def padded(arrays: Sequence[np.ndarray], filler: int | bool) -> np.ndarray:
    """Arrays of one number of axes, side by side in the size of the largest."""
    shape = [max(array.shape[axis] for array in arrays) for axis in range(arrays[0].ndim)]
    found = np.full((len(arrays), *shape), filler, dtype=arrays[0].dtype)
    for place, array in zip(found, arrays, strict=True):
        place[tuple(slice(size) for size in array.shape)] = array
    return found


def lengths(part: Part) -> np.ndarray:
    """Length of each row."""
    return np.array([sum(array.size for array in row.values()) for row in part.rows])


def in_order(part: Part, size: int) -> Iterator[np.ndarray]:
    """Indices of all examples in batches of similar lengths."""
    order = lengths(part).argsort(kind="stable")
    return (order[begin : begin + size] for begin in range(0, len(order), size))


def shuffled(part: Part, size: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
    """Batches of similar lengths without end: every example once a pass, in an order that the generator decides."""
    length, pool = lengths(part), 16 * size
    while True:
        order = generator.permutation(len(length))
        chunks = [order[begin : begin + pool] for begin in range(0, len(order), pool)]
        sorted_chunks = [chunk[length[chunk].argsort(kind="stable")] for chunk in chunks]
        found = [chunk[begin : begin + size] for chunk in sorted_chunks for begin in range(0, len(chunk), size)]
        for place in generator.permutation(len(found)):
            yield found[place]
