"""Names of protocol constants as people write them: `MAP_KIND_SELF` is "self"."""

from typing import Any


def name_of(enum: Any, number: int) -> str:
    """The short name of a constant; "unspecified" for 0 and "unknown 12" for one from a newer protocol."""
    try:
        name: str = enum.Name(number)
    except ValueError:
        return f"unknown {number}"
    return name.removeprefix(_prefix(enum)).lower()


def number_of(enum: Any, name: str, *, what: str) -> Any:
    """The constant with a short name, of the enum's own type as the generated stubs declare it.

    Raises: ValueError where there is none such, naming those there are.
    """
    try:
        return enum.Value(_prefix(enum) + name.upper())
    except ValueError:
        known = ", ".join(repr(name_of(enum, number)) for number in enum.values() if number)
        raise ValueError(f"{what} is one of {known}, not {name!r}") from None


def _prefix(enum: Any) -> str:
    unspecified: str = enum.Name(0)
    return unspecified.removesuffix("UNSPECIFIED")
