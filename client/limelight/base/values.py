"""Input values: Python values, and classes for ambiguous ones, converted to protocol values.

| Python | protocol |
| --- | --- |
| `str` | text (also accepted for a document) |
| `list` of `str` | document, as sentences |
| `tuple` of two `str` | pair |
| `bytes` | image; audio if they start as a WAV file |
| path | the file: image, WAV, `.txt`, or `.npy`, by its suffix |
| Pillow image | image |
| NumPy array | tensor |
| `Document`, `Pair`, `Image`, `Audio`, `Graph` | the value of that kind |
| `limelight.v1.values_pb2.Value` | itself |
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from limelight.base.errors import InputError
from limelight.base.png import encode_png
from limelight.base.strings import check_string, check_strings, decode_utf8, quote
from limelight.base.tensors import to_tensor
from limelight.v1 import values_pb2

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage
else:
    PillowImage = Any


@dataclass(frozen=True)
class Document:
    """A text of several sentences: a string that the server splits, or the sentences."""

    content: str | Sequence[str]


@dataclass(frozen=True)
class Pair:
    """Two texts that a model reads together."""

    first: str
    second: str


@dataclass(frozen=True, eq=False)
class Image:
    """An image: the bytes of a file, its path, or its pixels.

    Pixels are uint8 [row, column], or [row, column, channel] with 1 to 4 channels.
    """

    source: bytes | os.PathLike[str] | NDArray[np.uint8]

    def data(self) -> bytes:
        """Return the bytes of an image file."""
        if isinstance(self.source, bytes):
            return self.source
        if isinstance(self.source, np.ndarray):
            return encode_png(self.source)
        return Path(self.source).read_bytes()


@dataclass(frozen=True, eq=False)
class Audio:
    """Audio: the bytes of a WAV file, its path, or samples from -1 to 1 with their rate per second."""

    source: bytes | str | os.PathLike[str] | ArrayLike
    sample_rate: int | None = None

    def message(self) -> values_pb2.Audio:
        """Build the protocol message."""
        if isinstance(self.source, bytes):
            return values_pb2.Audio(wav=self.source)
        if isinstance(self.source, str | os.PathLike):
            return values_pb2.Audio(wav=Path(self.source).read_bytes())
        if self.sample_rate is None:
            raise ValueError("samples need a sample_rate")
        samples = to_tensor(np.asarray(self.source, dtype=np.float32))
        return values_pb2.Audio(samples=values_pb2.AudioSamples(samples=samples, sample_rate=self.sample_rate))


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph: `nodes` [node, feature], `edges` [2, edge] (source and target), and `edge_features` [edge, feature]."""

    nodes: NDArray[Any]
    edges: ArrayLike
    edge_features: NDArray[Any] | None = None
    node_names: Sequence[str] = ()

    def message(self) -> values_pb2.Graph:
        """Build the protocol message."""
        features = None if self.edge_features is None else to_tensor(np.asarray(self.edge_features))
        return values_pb2.Graph(
            nodes=to_tensor(np.asarray(self.nodes)),
            edges=to_tensor(np.asarray(self.edges, dtype=np.int64)),
            edge_features=features,
            node_names=self.node_names,
        )


LoneInput: TypeAlias = (
    str
    | bytes
    | os.PathLike[str]
    | tuple[str, str]
    | NDArray[Any]
    | Document
    | Pair
    | Image
    | Audio
    | Graph
    | values_pb2.Value
    | PillowImage
)
"""Types that can stand for an instance of a model with one input: a list is several instances."""
Input: TypeAlias = LoneInput | list[str]
Inputs: TypeAlias = Mapping[str, Input]

# Modes of Pillow that a PNG file keeps; other images become RGB.
_PNG_MODES = {"1", "L", "LA", "P", "RGB", "RGBA"}
_IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"}
SUFFIXES = {*_IMAGE_SUFFIXES, ".wav", ".txt", ".npy"}
"""Suffixes of files whose kind is known without the model."""


def to_instance(inputs: Inputs | values_pb2.Instance, field: str = "instances[0]") -> values_pb2.Instance:
    """Build an instance from values by input name; `field` is its path in the request.

    Raises:
        InputError, TypeError: names the input.
        OSError: a file cannot be read.
    """
    if isinstance(inputs, values_pb2.Instance):
        return inputs
    if not isinstance(inputs, Mapping):
        raise TypeError(f"an instance maps names of inputs to values; this is a {type(inputs).__name__}")
    instance = values_pb2.Instance()
    for name, value in inputs.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of an input is a string, not {name!r}")
        path = f"{field}.inputs[{quote(name)}]"
        check_string(name, f"the name in {path}")
        try:
            instance.inputs[name].CopyFrom(to_value(value, path))
        except InputError:
            raise
        except (ValueError, EOFError) as error:  # raised by NumPy for an empty file
            raise InputError(f"input {name!r}: {error}") from error
        except TypeError as error:
            raise TypeError(f"input {name!r}: {error}") from error
    return instance


def to_value(value: Input, field: str = "value") -> values_pb2.Value:
    """Build a value (see the table above); `field` is its path in the request.

    Raises:
        TypeError: the type is not in the table.
        ValueError: the suffix of a file is unknown.
        InputError: a text cannot be sent.
        OSError: a file cannot be read.
    """
    match value:
        case values_pb2.Value():
            return value
        case str():
            return values_pb2.Value(text=check_string(value, field))
        case bytes():
            if value[:4] == b"RIFF" and value[8:12] == b"WAVE":
                return values_pb2.Value(audio=Audio(value).message())
            return values_pb2.Value(image=value)
        case os.PathLike():
            return _from_file(Path(value), field)
        case np.ndarray():
            return values_pb2.Value(tensor=to_tensor(value))
        case Document(content=str() as text):
            return values_pb2.Value(document=values_pb2.Document(text=check_string(text, field)))
        case Document(content=sentences):
            texts = values_pb2.Sentences(texts=check_strings(sentences, f"{field}.sentences.texts"))
            return values_pb2.Value(document=values_pb2.Document(sentences=texts))
        case Pair():
            first, second = check_string(value.first, f"{field}.first"), check_string(value.second, f"{field}.second")
            return values_pb2.Value(pair=values_pb2.Pair(first=first, second=second))
        case Image():
            return values_pb2.Value(image=value.data())
        case Audio():
            return values_pb2.Value(audio=value.message())
        case Graph():
            check_strings(value.node_names, f"{field}.node_names")
            return values_pb2.Value(graph=value.message())
        case tuple() if is_pair(value):
            return to_value(Pair(*value), field)
        case []:
            raise TypeError("the list is empty; a document has a sentence at least, a tensor is a NumPy array")
        case list() if all(isinstance(text, str) for text in value):
            return to_value(Document(value), field)
        case list() | tuple():
            raise TypeError("a list of sentences and a pair of texts hold strings; numbers go into a NumPy array")
    if _is_pillow(value):
        return values_pb2.Value(image=_png(value))
    raise TypeError(f"a {type(value).__name__} cannot be an input")


def is_pair(value: object) -> TypeGuard[tuple[str, str]]:
    """Return whether a value is a tuple of two texts."""
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(text, str) for text in value)


def _is_pillow(value: object) -> bool:
    """Return whether a value is an image of Pillow, which is not imported here: a caller with an image has done so."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _png(image: Any) -> bytes:
    """Encode an image of Pillow, turned as its EXIF data say, as the server turns files."""
    from PIL import ImageOps

    turned = ImageOps.exif_transpose(image)
    (turned if turned.mode in _PNG_MODES else turned.convert("RGB")).save(data := BytesIO(), "PNG")
    return data.getvalue()


def _from_file(path: Path, field: str) -> values_pb2.Value:
    suffix = path.suffix.lower()
    if suffix in _IMAGE_SUFFIXES:
        return to_value(Image(path))
    if suffix == ".wav":
        return to_value(Audio(path))
    if suffix == ".txt":
        return values_pb2.Value(text=decode_utf8(path.read_bytes(), field, str(path)))
    if suffix == ".npy":
        return to_value(np.load(path, allow_pickle=False))
    raise ValueError(
        f"{path} has none of the suffixes of images, .wav, .txt and .npy; read the file and send its content"
    )
