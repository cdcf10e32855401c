"""PNG encoding of pixel arrays, without an image library."""

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # two channels: grey and alpha


def encode_png(pixels: NDArray[Any]) -> bytes:
    """Encode a PNG file. Shapes: uint8 [row, column] or [row, column, channel] with 1 to 4 channels.

    Raises:
        TypeError: another element type.
        ValueError: another shape.
    """
    if pixels.dtype != np.uint8:
        raise TypeError(f"pixels are uint8, from 0 to 255, not {pixels.dtype}")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in _COLOUR_TYPES or not pixels.size:
        raise ValueError(f"pixels are [row, column] or [row, column, 1 to 4 channels], not {list(pixels.shape)}")
    rows, columns, channels = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each row starts with the number of its filter; 0 is none.
    lines = np.zeros((rows, 1 + columns * channels), dtype=np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(lines.tobytes())), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
