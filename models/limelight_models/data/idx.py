"""IDX files, the format of MNIST: images and their labels, gzipped or not."""

import gzip
import math
import struct
from pathlib import Path

import numpy as np

from limelight_bundle.values import Array
from limelight_models.data.dataset import DataError, Example
from limelight_models.data.images import png

_UNSIGNED_BYTE = 8


def read_idx(path: Path) -> Array:
    """Read one file of unsigned bytes.

    Header, big-endian: two zero bytes, the element type, the number of axes, then each size as four bytes.
    Raises: DataError saying what of that is not so.
    """
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if len(data) < 4 or data[:2] != b"\0\0":
        raise DataError(f"{path}: is no IDX file; one begins with two zero bytes")
    kind, axes = data[2], data[3]
    if kind != _UNSIGNED_BYTE:
        raise DataError(f"{path}: has elements of type 0x{kind:02x}; unsigned bytes (0x08) are wanted")
    begin = 4 + 4 * axes
    if len(data) < begin:
        raise DataError(f"{path}: ends inside its header")
    shape = struct.unpack(f">{axes}I", data[4:begin])
    if len(data) - begin != math.prod(shape):
        raise DataError(f"{path}: has {len(data) - begin} bytes of data; {math.prod(shape)} follow from shape {shape}")
    return np.frombuffer(data, np.uint8, offset=begin).reshape(shape)


def read(images: Path, labels: Path) -> list[Example]:
    """Read images [image, row, column] and labels [image]. Raises: DataError where they do not belong together."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3:
        raise DataError(f"{images}: has {pixels.ndim} axes; [image, row, column] is wanted")
    if classes.ndim != 1:
        raise DataError(f"{labels}: has {classes.ndim} axes; [image] is wanted")
    if len(pixels) != len(classes):
        raise DataError(f"{labels}: has {len(classes)} labels for the {len(pixels)} images of {images.name}")
    return [Example({"image": png(image)}, str(label)) for image, label in zip(pixels, classes.tolist(), strict=True)]
