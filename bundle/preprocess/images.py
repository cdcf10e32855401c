"""Image files to arrays."""

import io
import warnings
from collections.abc import Sequence

import numpy as np
from PIL import Image

from bundle.errors import InputError, TooLargeError
from bundle.values import Array

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")


def decode_image(data: bytes, *, channels: int, rows: int, columns: int, max_pixels: int, field: str) -> Array:
    """Decode an image file to uint8 [row, column, channel].

    The size is read from the header, and an image over `max_pixels` is refused before it is decoded.
    Raises: InputError where it is no image; TooLargeError where it has too many pixels.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is stricter
            with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
                width, height = image.size
                if max_pixels and width * height > max_pixels:
                    raise TooLargeError(field, f"is {width} x {height} pixels; at most {max_pixels} in all are allowed")
                image.draft("L" if channels == 1 else "RGB", (columns, rows))  # a JPEG can be read smaller
                converted = image.convert("L" if channels == 1 else "RGB")
    except Image.DecompressionBombError as error:
        raise TooLargeError(field, f"has too many pixels; at most {max_pixels} are allowed") from error
    except TooLargeError:
        raise
    except Exception as error:  # Pillow's decoders raise whatever broken data makes them raise
        raise InputError(field, f"is not an image in one of the formats {', '.join(_FORMATS)}") from error
    if converted.size != (columns, rows):
        converted = converted.resize((columns, rows), Image.Resampling.BILINEAR, reducing_gap=3.0)
    return np.asarray(converted, dtype=np.uint8).reshape(rows, columns, channels)


def normalise_image(pixels: Array, *, scale: float, mean: Sequence[float], deviation: Sequence[float]) -> Array:
    """Turn uint8 [row, column, channel] into float32 [channel, row, column]: (x * scale - mean) / deviation."""
    values = (pixels.astype(np.float32) * np.float32(scale) - np.asarray(mean, np.float32)) / np.asarray(
        deviation, np.float32
    )
    return np.ascontiguousarray(values.transpose(2, 0, 1))
