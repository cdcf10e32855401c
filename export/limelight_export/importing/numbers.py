"""Numbers of examples, as the type that an input takes."""

from typing import Any

import numpy as np

from limelight_bundle.values import Array


def as_numbers(value: Any, dtype: "np.dtype[Any]") -> Array:
    """Return numbers, or nested lists of them, as an array of a type.

    Raises:
        ValueError: lists of different lengths, something else than numbers, or a number that the type does not hold.
    """
    given = np.asarray(value)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{value!s:.40} does not hold numbers of the type {dtype}")
    with np.errstate(invalid="ignore"):
        array = given.astype(dtype)
    if dtype.kind in "iub" and (wrong := given[given != array]).size:
        raise ValueError(f"{wrong.flat[0]} is not a number of the type {dtype}")
    return array
