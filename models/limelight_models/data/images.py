"""Pictures as files: pixels to PNG, the form in which a caller sends them, and what there is to know of them."""

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image as Picture

from limelight_bundle.values import Array, Image, Value
from limelight_models.data.dataset import DataError


def png(pixels: Array) -> Image:
    """Encode uint8 [row, column], 0 black, as a PNG file."""
    buffer = io.BytesIO()
    Picture.fromarray(np.ascontiguousarray(pixels, dtype=np.uint8)).save(buffer, "PNG", compress_level=1)
    return Image(buffer.getvalue())


def read(picture: Image) -> Array:
    """Decode a picture as grey, uint8 [row, column]."""
    return np.asarray(Picture.open(io.BytesIO(picture.data)).convert("L"))


@dataclass(frozen=True)
class GreyLevels:
    """Size of pictures, and mean and standard deviation of their pixels, which are from 0 to 1."""

    rows: int
    columns: int
    mean: float
    deviation: float

    @property
    def sizes(self) -> dict[str, Any]:
        """Fields for the config of a model of such pictures: `rows`, `columns`, `mean` and `deviation`."""
        brightness = {"mean": (round(self.mean, 4),), "deviation": (round(self.deviation, 4),)}
        return {"rows": self.rows, "columns": self.columns, **brightness}


def grey_levels(pictures: Iterable[Value]) -> GreyLevels:
    """Measure pictures, one at a time. Raises: DataError where one is no picture, or has another size."""
    size: tuple[int, int] | None = None
    count = total = squares = 0
    for picture in pictures:
        if not isinstance(picture, Image):
            raise DataError("an example has no picture")
        pixels = read(picture).astype(np.int64)
        rows, columns = pixels.shape
        if size is None:
            size = rows, columns
        if size != (rows, columns):
            raise DataError(f"pictures differ in size: {size[0]} x {size[1]} and {rows} x {columns}")
        count, total, squares = count + pixels.size, total + int(pixels.sum()), squares + int((pixels**2).sum())
    if size is None:
        raise DataError("there are no pictures")
    mean = total / count
    return GreyLevels(*size, mean / 255, (squares / count - mean**2) ** 0.5 / 255)
