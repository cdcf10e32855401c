"""Recordings of spoken digits in an .npz archive, as a copy of the Free Spoken Digit Dataset has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limelight_bundle.values import Array
from limelight_models.data.archives import arrays
from limelight_models.data.dataset import DataError
from limelight_models.data.units import SHORTEST

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
        return _clips(arrays(path, ARRAYS))
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def _clips(found: Mapping[str, Array]) -> list[Clip]:
    if missing := [key for key in ARRAYS if key not in found]:
        raise ValueError(f"has no array {missing[0]}")
    for key, array in found.items():
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"{key} is {array.dtype} {list(array.shape)}; one axis of whole numbers is wanted")
    offsets = found["offsets"].astype(np.int64)
    samples, count = found["samples"].astype(np.float32), len(offsets) - 1
    if count < 1 or offsets[0] < 0 or offsets[-1] > len(samples):
        raise ValueError(f"offsets do not lie within the {len(samples)} samples")
    if (np.diff(offsets) < SHORTEST).any():
        raise ValueError(f"offsets leave recording {int(np.diff(offsets).argmin())} shorter than {SHORTEST} samples")
    for key in ("digit", "speaker", "index"):
        if len(found[key]) != count:
            raise ValueError(f"{key} has {len(found[key])} entries for {count} recordings")
    if not np.isin(found["digit"], np.arange(10)).all():
        raise ValueError("digit has a number that is none of 0 to 9")
    known = (found[key].tolist() for key in ("digit", "speaker", "index"))
    return [
        Clip(samples[begin:end], *each)
        for begin, end, *each in zip(offsets[:-1].tolist(), offsets[1:].tolist(), *known, strict=True)
    ]
