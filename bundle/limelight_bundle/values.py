"""Input values, independent of the protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]


@dataclass(frozen=True)
class Text:
    """Unicode text.

    complete: its special tokens are in it already, as a chat template writes them; none are put around it.
    """

    text: str
    complete: bool = False


@dataclass(frozen=True)
class Sentences:
    """A document that the caller has split into sentences."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Two texts that a model reads together."""

    first: str
    second: str


@dataclass(frozen=True)
class Image:
    """The bytes of an image file."""

    data: bytes


@dataclass(frozen=True)
class Audio:
    """A recording: the bytes of a WAV file, or float32 samples [sample] from -1 to 1 with their number a second."""

    content: bytes | Array
    sample_rate: int = 0


@dataclass(frozen=True)
class Graph:
    """A graph: features [node, feature], edges [2, edge] (sources above targets), edge features [edge, feature]."""

    nodes: Array
    edges: Array
    edge_features: Array | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorValue:
    """A tensor of one instance, without a batch axis."""

    array: Array


Value = Text | Sentences | Pair | Image | Audio | Graph | TensorValue
Instance = Mapping[str, Value]
