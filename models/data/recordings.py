"""Recordings of spoken digits in an .npz archive, as a copy of the Free Spoken Digit Dataset has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np

from bundle.values import Array
from models.data.dataset import DataError
from models.data.units import SHORTEST

ARRAYS = ("samples", "offsets", "digit", "speaker", "index")


@dataclass(frozen=True, eq=False)
class Clip:
    """A digit that somebody said once. Shapes: samples float32 [sample], 8,000 a second. index: which time it was."""

    samples: Array
    digit: int
    speaker: int
    index: int


def read(path: Path) -> list[Clip]:
    """Read recordings from an .npz archive, without pickles.

    samples int16 [sample], all recordings joined, at 8 kHz; offsets [recording + 1]: recording i is
    samples[offsets[i]:offsets[i + 1]]; digit, speaker and index [recording].
    Raises: DataError naming the file, and the array that is missing or does not fit.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in ARRAYS if key in archive}
    except (OSError, ValueError, TypeError, EOFError, BadZipFile, ZlibError) as error:
        raise DataError(f"{path}: cannot be read as an .npz archive ({error})") from error
    try:
        return _clips(arrays)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def _clips(arrays: Mapping[str, Array]) -> list[Clip]:
    if missing := [key for key in ARRAYS if key not in arrays]:
        raise ValueError(f"has no array {missing[0]}")
    for key, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"{key} is {array.dtype} {list(array.shape)}; one axis of whole numbers is wanted")
    offsets = arrays["offsets"].astype(np.int64)
    samples, count = arrays["samples"].astype(np.float32), len(offsets) - 1
    if count < 1 or offsets[0] < 0 or offsets[-1] > len(samples):
        raise ValueError(f"offsets do not lie within the {len(samples)} samples")
    if (np.diff(offsets) < SHORTEST).any():
        raise ValueError(f"offsets leave recording {int(np.diff(offsets).argmin())} shorter than {SHORTEST} samples")
    for key in ("digit", "speaker", "index"):
        if len(arrays[key]) != count:
            raise ValueError(f"{key} has {len(arrays[key])} entries for {count} recordings")
    if not np.isin(arrays["digit"], np.arange(10)).all():
        raise ValueError("digit has a number that is none of 0 to 9")
    known = (arrays[key].tolist() for key in ("digit", "speaker", "index"))
    return [
        Clip(samples[begin:end], *each)
        for begin, end, *each in zip(offsets[:-1].tolist(), offsets[1:].tolist(), *known, strict=True)
    ]
