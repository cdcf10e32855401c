"""Reading of WAV files: one channel, whose samples are 16-bit integers or 32-bit floating-point numbers."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Array

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
# Format and bits of a sample -> type and largest magnitude.
_SAMPLES: Mapping[tuple[int, int], tuple["np.dtype[Any]", float]] = {
    (_PCM, 16): (np.dtype("<i2"), 2.0**15),
    (_FLOAT, 32): (np.dtype("<f4"), 1.0),
}
_FORMAT_SIZE = 16  # bytes of a `fmt ` chunk without extension
_SUBFORMAT = slice(24, 26)  # of an extensible format: the first bytes of its identifier
# A program that writes to a pipe does not know the size of the samples, and states the largest number.
_UNKNOWN_SIZE = 0xFFFFFFFF


@dataclass(frozen=True)
class WavFile:
    """The header of a WAV file, and where its samples are.

    Attributes:
        sample_rate: samples a second.
        count: number of samples.
    """

    sample_rate: int
    count: int
    _data: memoryview
    _dtype: "np.dtype[Any]"
    _largest: float

    def samples(self, count: int) -> Array:
        """Decode the first `count` samples: float32 [sample], of integers from -1 to 1."""
        taken: Array = np.frombuffer(self._data, self._dtype, count)
        return (taken / self._largest).astype(np.float32)


def read_wav(data: bytes, field: Path) -> WavFile:
    """Read the header of a WAV file; nothing is decoded.

    Raises:
        InputError: the file is of another kind, cut off, or of a form that is not supported, which the message names.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise InputError(field, "is not a WAV file")
    stated: tuple[int, int, int, int] | None = None
    for name, content, size in _chunks(memoryview(data), field):
        if name == b"fmt ":
            stated = _read_format(content, field)
        elif name == b"data":
            if stated is None:
                raise InputError(field, "is a WAV file whose samples come before their format")
            return _of_data(content, size, stated, field)
    raise InputError(field, f"is a WAV file without {'samples' if stated else 'a format'}; it is cut off")


def _chunks(data: memoryview, field: Path) -> Iterator[tuple[bytes, memoryview, int]]:
    """Yield the name, the content and the stated size of each chunk."""
    place = 12
    while place < len(data):
        if place + 8 > len(data):
            raise InputError(field, "is a WAV file that is cut off within its header")
        name, size = struct.unpack_from("<4sI", data, place)
        yield name, data[place + 8 : place + 8 + size], size
        place += 8 + size + size % 2


def _read_format(content: memoryview, field: Path) -> tuple[int, int, int, int]:
    """Return format, channels, sample rate and bits of a sample."""
    if len(content) < _FORMAT_SIZE:
        raise InputError(field, "is a WAV file that is cut off within its header")
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content)
    if kind == _EXTENSIBLE and len(content) >= _SUBFORMAT.stop:
        kind = int.from_bytes(content[_SUBFORMAT], "little")
    return kind, channels, rate, bits


def _of_data(content: memoryview, size: int, stated: tuple[int, int, int, int], field: Path) -> WavFile:
    kind, channels, rate, bits = stated
    if channels != 1:
        raise InputError(field, f"has {channels} channels; one is taken, so mix them first")
    if (kind, bits) not in _SAMPLES:
        samples = {_PCM: "integers", _FLOAT: "floating-point numbers"}.get(kind, f"of the compressed format {kind}")
        raise InputError(
            field,
            f"has samples of {bits} bits, {samples}; they can be 16-bit integers or 32-bit floating-point numbers",
        )
    dtype, largest = _SAMPLES[kind, bits]
    if len(content) < size != _UNKNOWN_SIZE:
        raise InputError(field, f"is cut off: its header states {size} bytes of samples, and it has {len(content)}")
    return WavFile(rate, len(content) // dtype.itemsize, content, dtype, largest)
