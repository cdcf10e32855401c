"""Parameters of requests, each read as its type; those of Limelight begin with `limelight_`."""

import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from limelight_bundle.errors import InputError, Path
from limelight_service.open_inference import open_inference_pb2 as pb

OURS = "limelight_"
_LONGEST = 64  # characters of a name or value that is repeated to its caller
_MOST_CHARACTERS = 64 * 1024  # of a parameter
_INDEX = re.compile(r"\s{0,16}-?[0-9]{1,10}\s{0,16}")
_INT32 = range(-(2**31), 2**31)

M = TypeVar("M", bound=Message)
C = TypeVar("C")

Value = bool | int | float | str | None
"""Of a parameter; None for one that has none."""


def parameter_values(entries: Mapping[str, pb.InferParameter]) -> dict[str, Value]:
    """Give the values of a message's parameters."""
    found: dict[str, Value] = {}
    for name, entry in entries.items():
        choice = entry.WhichOneof("parameter_choice")
        found[name] = None if choice is None else getattr(entry, choice)
    return found


def set_parameters(entries: Any, values: Mapping[str, Value]) -> None:
    """Put values into a message's parameters."""
    for name, value in values.items():
        match value:
            case bool():
                entries[name].bool_param = value
            case int():
                entries[name].int64_param = value
            case str():
                entries[name].string_param = value


class Parameters:
    """The parameters of a request or of one of its outputs. path: of what has them; empty for the request.

    Raises: InputError for a name that begins with `limelight_` and is none of `known`, and for names of `refused`.
    """

    def __init__(
        self, entries: Mapping[str, Value], path: Path, known: Collection[str], refused: Mapping[str, str]
    ) -> None:
        self._entries = entries
        self._path = path
        for name in entries:
            if name in refused:
                raise InputError(self.path(name), refused[name])
            if name.startswith(OURS) and name not in known:
                there = ", ".join(sorted(known))
                raise InputError(self.path(name[:_LONGEST]), f"is no parameter here; there are {there}")

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def path(self, name: str) -> Path:
        """Give the path of a parameter."""
        return (*self._path, "parameters", name)

    def integer(self, name: str, default: int) -> int:
        """Read a whole number. Raises: InputError where it is something else."""
        if name not in self:
            return default
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "a whole number (int64_param)")
        return value

    def small(self, name: str, default: int) -> int:
        """Read a whole number of 32 bits. Raises: InputError."""
        value = self.integer(name, default)
        if value not in _INT32:
            raise InputError(self.path(name), f"is {value}, which is beyond 32 bits")
        return value

    def flag(self, name: str) -> bool:
        """Read true or false; false where it is not set. Raises: InputError where it is something else."""
        if name not in self:
            return False
        value = self._value(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false (bool_param)")
        return value

    def choice(self, name: str, choices: Mapping[str, C]) -> C | None:
        """Read one of some words; None where it is not set. Raises: InputError naming them."""
        if name not in self:
            return None
        value = self._value(name)
        if not isinstance(value, str) or value not in choices:
            raise self._wrong(name, f"one of {', '.join(choices)} (string_param)")
        return choices[value]

    def indices(self, name: str) -> list[int]:
        """Read whole numbers, separated by commas, or one alone; none where it is not set. Raises: InputError."""
        if name not in self:
            return []
        value = self._value(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return [self.small(name, 0)]
        parts = self._text(name, value).split(",") if isinstance(value, str) else [""]
        if not all(map(_INDEX.fullmatch, parts)):
            raise self._wrong(name, "whole numbers separated by commas, as 0,-1 (string_param), or one (int64_param)")
        found = [int(each) for each in parts]
        outside = next((each for each in found if each not in _INT32), None)
        if outside is not None:
            raise InputError(self.path(name), f"has {outside}, which is beyond 32 bits")
        return found

    def message(self, name: str, kind: type[M]) -> M | None:
        """Read a message of limelight.v1 from its JSON; None where it is not set. Raises: InputError."""
        if name not in self:
            return None
        value, found = self._value(name), kind()
        if not isinstance(value, str):
            raise self._wrong(name, f"the JSON of limelight.v1.{kind.DESCRIPTOR.name} (string_param)")
        try:
            json_format.Parse(self._text(name, value), found)
        except (json_format.ParseError, ValueError, RecursionError) as error:
            said = str(error)[:200] or "it is nested too deeply"
            raise InputError(self.path(name), f"is no limelight.v1.{kind.DESCRIPTOR.name} in JSON: {said}") from error
        return found

    def _text(self, name: str, value: str) -> str:
        if len(value) > _MOST_CHARACTERS:
            raise InputError(self.path(name), f"has {len(value)} characters; at most {_MOST_CHARACTERS} are allowed")
        return value

    def _value(self, name: str) -> bool | int | str | float:
        value = self._entries[name]
        if value is None:
            raise InputError(self.path(name), "has no value")
        return value

    def _wrong(self, name: str, wanted: str) -> InputError:
        return InputError(self.path(name), f"is {self._value(name)!r:.{_LONGEST}}; it is {wanted}")
