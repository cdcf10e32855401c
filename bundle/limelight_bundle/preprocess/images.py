"""Decoding, resizing and normalising of images; safe to use from several threads.

`PIL.Image.open` is not used: it fills global registries when it first meets a format, and warns of large images, which
only a change of the process's warning filters would silence.
"""

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import BmpImagePlugin, GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin
from PIL import Image as Pillow
from PIL.ImageFile import ImageFile

from limelight_bundle.errors import InputError, Path, TooLargeError
from limelight_bundle.values import Array

# Format name, test of the first bytes, and reader.
_FORMATS: Sequence[tuple[str, Callable[[bytes], bool], Callable[[io.BytesIO], ImageFile]]] = (
    ("PNG", lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"), PngImagePlugin.PngImageFile),
    ("JPEG", lambda data: data.startswith(b"\xff\xd8\xff"), JpegImagePlugin.JpegImageFile),
    ("BMP", lambda data: data.startswith(b"BM"), BmpImagePlugin.BmpImageFile),
    ("GIF", lambda data: data.startswith((b"GIF87a", b"GIF89a")), GifImagePlugin.GifImageFile),
    ("WEBP", lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP", WebPImagePlugin.WebPImageFile),
)
_ORIENTATION = 0x0112  # EXIF tag
_TURNS = {
    2: Pillow.Transpose.FLIP_LEFT_RIGHT,
    3: Pillow.Transpose.ROTATE_180,
    4: Pillow.Transpose.FLIP_TOP_BOTTOM,
    5: Pillow.Transpose.TRANSPOSE,
    6: Pillow.Transpose.ROTATE_270,
    7: Pillow.Transpose.TRANSVERSE,
    8: Pillow.Transpose.ROTATE_90,
}
_SWAPPED = (5, 6, 7, 8)  # rows become columns
# How a PNG stores grey of 2 and of 4 bits, and by what Pillow multiplies it; not the transparent colour.
_GREY_STEPS = {"L;2": 85, "L;4": 17}
_COLOURS_OF_16_BITS = "RGB;16B"


def decode_image(
    data: bytes, *, channels: int, max_pixels: int, field: Path, target_size: tuple[int, int] | None = None
) -> tuple[Array, tuple[int, int]]:
    """Decode an image file to uint8 [row, column, channel], on white, with its EXIF orientation applied.

    The size is read from the header, so an image over `max_pixels` is refused before it is decoded.

    Args:
        target_size: (rows, columns) to which the image will shrink: a JPEG may be decoded at 1/2, 1/4 or 1/8 of its
            size as long as it keeps twice as many.
    Returns: the pixels, and the (rows, columns) of the whole image.
    Raises:
        InputError: the file is not an image.
        TooLargeError: the image has too many pixels.
    """
    try:
        with _open(data, max_pixels, field) as image:
            stored = image.tile[0][3] if image.tile else ""  # unknown once the pixels are loaded
            orientation = _orientation(image)
            columns, rows = reversed(image.size) if orientation in _SWAPPED else image.size
            if target_size is not None:
                wanted = (2 * target_size[1], 2 * target_size[0])
                image.draft("L" if channels == 1 else "RGB", wanted[::-1] if orientation in _SWAPPED else wanted)
            converted = _convert(image, data, stored, "L" if channels == 1 else "RGB")
        if orientation in _TURNS:
            converted = converted.transpose(_TURNS[orientation])
    except (TooLargeError, MemoryError):
        raise
    except Exception as error:  # Pillow's decoders raise many types for invalid data
        names = ", ".join(name for name, _, _ in _FORMATS)
        raise InputError(field, f"is not an image in one of the formats {names}") from error
    return np.asarray(converted, dtype=np.uint8).reshape(converted.height, converted.width, channels), (rows, columns)


def _open(data: bytes, max_pixels: int, field: Path) -> ImageFile:
    """Read the header. A WebP header is parsed here, since Pillow's decoder allocates pixels on creation."""
    for name, begins, read in _FORMATS:
        if begins(data):
            if name == "WEBP":
                _check_size(_webp_size(data), max_pixels, field)
            image = read(io.BytesIO(data))
            _check_size(image.size, max_pixels, field)
            return image
    raise ValueError("of no known format")


def _check_size(size: tuple[int, int], max_pixels: int, field: Path) -> None:
    width, height = size
    if max_pixels and width * height > max_pixels:
        raise TooLargeError(field, f"is {width} x {height} pixels; at most {max_pixels} in all are allowed")


def _webp_size(data: bytes) -> tuple[int, int]:
    """Return width and height from the first chunk of a WebP file (RFC 9649, sections 2.5 to 2.7)."""
    kind, content = data[12:16], data[20:30]
    if len(content) < 10:
        raise ValueError("cut")
    if kind == b"VP8X":
        return 1 + int.from_bytes(content[4:7], "little"), 1 + int.from_bytes(content[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(content[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return int.from_bytes(content[6:8], "little") & 0x3FFF, int.from_bytes(content[8:10], "little") & 0x3FFF
    raise ValueError("no picture")


def _orientation(image: ImageFile) -> int:
    """Return the EXIF orientation; 1 (upright) if there is none or it is invalid."""
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # invalid EXIF data are ignored
        return 1


def _convert(image: ImageFile, data: bytes, stored: Any, mode: str) -> Pillow.Image:
    """Convert an image to a mode. stored: Pillow's name for the samples in the file, `data`."""
    transparent = image.info.get("transparency")
    if image.mode.startswith("I;16"):  # 16-bit grey, which Pillow would clip at 255
        samples = np.asarray(image)
        grey = Pillow.fromarray((samples >> 8).astype(np.uint8))
        return grey.convert(mode) if transparent is None else _on_white(grey, samples != transparent, mode)
    if not image.has_transparency_data:
        return image.convert(mode)
    if stored == _COLOURS_OF_16_BITS and transparent is not None:  # Pillow keeps 8 bits, and compares them with 16
        del image.info["transparency"]
        samples = np.asarray(image).astype(np.uint16) << 8 | _low_bytes(data)
        return _on_white(image, (samples != np.array(transparent, np.uint16)).any(axis=2), mode)
    if stored in _GREY_STEPS and transparent is not None:
        image.info["transparency"] = transparent * _GREY_STEPS[stored]
    whole = image.convert("RGBA")
    return _on_white(whole, np.asarray(whole.getchannel("A")), mode)


def _on_white(image: Pillow.Image, opaque: Array, mode: str) -> Pillow.Image:
    """Put an image on white, as browsers show it: the hidden colour of transparent pixels is usually black.

    Args:
        opaque: 0 to 255, or whether, for each pixel.
    """
    paper = Pillow.new(mode, image.size, "white")
    mask = opaque * np.uint8(255) if opaque.dtype == np.bool_ else opaque
    paper.paste(image.convert(mode), mask=Pillow.fromarray(mask))
    return paper


def _low_bytes(data: bytes) -> Array:
    """Decode the lower bytes of a PNG's colours of 16 bits: [row, column, channel]."""
    with PngImagePlugin.PngImageFile(io.BytesIO(data)) as image:
        image.tile = [(*image.tile[0][:3], "RGB;16L")]  # type: ignore[list-item]  # taken for little-endian numbers
        return np.asarray(image)


def resize(pixels: Array, rows: int, columns: int, resampling: Pillow.Resampling) -> Array:
    """Resize uint8 [row, column, channel], without keeping the aspect ratio."""
    if pixels.shape[:2] == (rows, columns):
        return pixels
    grey = pixels.shape[2] == 1
    image = Pillow.fromarray(pixels[:, :, 0] if grey else pixels)
    return np.asarray(image.resize((columns, rows), resampling)).reshape(rows, columns, pixels.shape[2])


def normalise_image(pixels: Array, *, scale: float, mean: Sequence[float], deviation: Sequence[float]) -> Array:
    """Normalise uint8 [row, column, channel] to float32 [channel, row, column].

    Each value is (x * scale - mean) / deviation.
    """
    values = (pixels.astype(np.float32) * np.float32(scale) - np.asarray(mean, np.float32)) / np.asarray(
        deviation, np.float32
    )
    return np.ascontiguousarray(values.transpose(2, 0, 1))
