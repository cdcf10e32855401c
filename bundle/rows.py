"""One instance as tensors (a row), several rows as a batch, and what the indices along an axis stand for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bundle.values import Array
from limelight.v1 import attention_pb2, model_pb2


class Token(NamedTuple):
    """A piece of a text: its place in Unicode code points, and the entry of the parent set that it belongs to.

    A tuple, since making hundreds of these is most of what preparing a text costs.
    """

    text: str
    start: int
    end: int
    special: bool = False
    parent: int = 0


@dataclass(frozen=True)
class Labels:
    """What the entries along an axis are, for one instance (`LabelSet` on the wire)."""

    name: str
    kind: attention_pb2.LabelKind
    size: int
    tokens: tuple[Token, ...] = ()
    grid: attention_pb2.Grid | None = None
    names: tuple[str, ...] = ()
    parent: str = ""


@dataclass(frozen=True)
class Row:
    """One instance, ready for a batch.

    tensors: by name, without a batch axis; masks are among them (bool, True at real places).
    sizes: of every named dimension; the padded size of a batch is the largest among its rows.
    labels: every label set that the inputs decide.
    """

    tensors: Mapping[str, Array]
    sizes: Mapping[str, int]
    labels: Mapping[str, Labels] = field(default_factory=dict)
    truncated: bool = False


def tensor_descriptions(inputs: Sequence[model_pb2.InputDescription]) -> Iterator[model_pb2.TensorDescription]:
    """Yield every tensor that the inputs are turned into, in order."""
    for description in inputs:
        yield from description.tensors


def collate(rows: Sequence[Row], descriptions: Sequence[model_pb2.TensorDescription]) -> dict[str, Array]:
    """Pad rows to one size and stack them: each tensor and its mask get a batch axis in front.

    A tensor that no row has (an optional input) is left out. Padding is the `pad_value`, and False in masks.
    """
    batch: dict[str, Array] = {}
    for description in descriptions:
        if description.name not in rows[0].tensors:
            continue
        batch[description.name] = _stack([row.tensors[description.name] for row in rows], description.pad_value)
        if description.mask:
            batch[description.mask] = _stack([row.tensors[description.mask] for row in rows], 0)
    return batch


def _stack(arrays: Sequence[Array], pad_value: float) -> Array:
    shape = tuple(max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True))
    if all(array.shape == shape for array in arrays):
        return np.stack(arrays)
    stacked = np.full((len(arrays), *shape), pad_value, dtype=arrays[0].dtype)
    for place, array in zip(stacked, arrays, strict=True):
        place[tuple(slice(size) for size in array.shape)] = array
    return stacked
