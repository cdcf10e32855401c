"""Names of protocol constants as people write them: `MAP_KIND_SELF` is "self"."""

from collections.abc import Mapping
from functools import cache
from typing import Any


def name_of(enum: Any, number: int) -> str:
    """The short name of a constant; "unspecified" for 0 and "unknown 12" for one from a newer protocol."""
    return _names(enum).get(number, f"unknown {number}")


def number_of(enum: Any, name: str, *, what: str) -> Any:
    """The constant with a short name, of the enum's own type as the generated stubs declare it.

    Raises: ValueError where there is none such, naming those there are.
    """
    names = _names(enum)
    for number, each in names.items():
        if each == name.lower():
            return number
    known = ", ".join(repr(each) for number, each in names.items() if number)
    raise ValueError(f"{what} is one of {known}, not {name!r}")


@cache
def _names(enum: Any) -> Mapping[int, str]:
    """Short names by number: looked up once, for it makes an object each, for every map of an answer."""
    prefix = enum.Name(0).removesuffix("UNSPECIFIED")
    return {number: name.removeprefix(prefix).lower() for name, number in enum.items()}
