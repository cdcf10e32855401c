"""Pictures as files: pixels to PNG, the form in which a caller sends them."""

import io

import numpy as np
from PIL import Image as Picture

from bundle.values import Array, Image


def png(pixels: Array) -> Image:
    """Encode uint8 [row, column], 0 black, as a PNG file."""
    buffer = io.BytesIO()
    Picture.fromarray(np.ascontiguousarray(pixels, dtype=np.uint8)).save(buffer, "PNG", compress_level=1)
    return Image(buffer.getvalue())
