"""Numbers in messages."""

import struct


def shown(value: float) -> str:
    """Write a number as short as it can be told from every other: 1.0000001 is not 1, and 2147483647 not 2.14748e+09.

    A number that a caller sent in single precision is written as such.
    """
    if isinstance(value, int) or (value == value and abs(value) < 1e16 and value == int(value)):
        return str(int(value))
    single = _single(value)
    for digits in range(6, 10) if single == value else ():
        short = f"{value:.{digits}g}"
        if _single(float(short)) == value:
            return short
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _single(value: float) -> float:
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return 0.0
    return float(found)
