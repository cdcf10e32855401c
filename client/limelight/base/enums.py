"""Short names of protocol constants: `MAP_KIND_SELF` is "self"."""

from collections.abc import Mapping
from functools import cache
from typing import Any


def name_of(enum: Any, number: int) -> str:
    """Return the short name of a constant; "unspecified" for 0, "unknown 12" for one of a newer protocol."""
    return _names(enum).get(number, f"unknown {number}")


def number_of(enum: Any, name: str, *, what: str) -> Any:
    """Return the constant with a short name, as the enum's own type.

    Raises:
        ValueError: there is no such constant; the message lists the names.
    """
    names = _names(enum)
    for number, each in names.items():
        if each == name.lower():
            return number
    known = ", ".join(repr(each) for number, each in names.items() if number)
    raise ValueError(f"{what} is one of {known}, not {name!r}")


@cache
def _names(enum: Any) -> Mapping[int, str]:
    """Return short names by number. The result is cached, since the lookup makes an object for each name."""
    prefix = enum.Name(0).removesuffix("UNSPECIFIED")
    return {number: name.removeprefix(prefix).lower() for name, number in enum.items()}
