"""Fields of requests in JSON: what each takes, as a check of the value and as a schema for the OpenAPI document."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from limelight_bundle.errors import InputError, Path
from limelight_service.codecs.json.numbers import shown
from limelight_service.codecs.json.reading import flag_of, parsed, text_of

_LONGEST = 64  # characters of a name that is repeated to its caller
_LONGEST_NAME = 256  # characters of a model's
Read = Callable[[Any, Path], Any]


@dataclass(frozen=True)
class Kind:
    """Values of a field. read: checks and translates one, or raises InputError with the path. schema: JSON Schema."""

    read: Read
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Field:
    """A field of requests. default: what it is read as where it is left out or null."""

    name: str
    kind: Kind
    default: Any = None
    is_required: bool = False


class Form:
    """The fields of a request, or of an object in one."""

    def __init__(self, *fields: Field) -> None:
        self._fields = {each.name: each for each in fields}
        self._defaults = {each.name: each.default for each in fields}
        self._required = [each.name for each in fields if each.is_required]

    @property
    def schema(self) -> dict[str, Any]:
        """Give the schema of the object."""
        properties = {each.name: dict(each.kind.schema) for each in self._fields.values()}
        required = {"required": list(self._required)} if self._required else {}
        return {"type": "object", "properties": properties, "additionalProperties": False, **required}

    def parse(self, body: bytes) -> dict[str, Any]:
        """Read a request. Raises: InputError naming the field."""
        return self.read(parsed(body), ())

    def read(self, value: Any, path: Path) -> dict[str, Any]:
        """Give every field by its name. Raises: InputError naming one that is unknown, missing or of another kind."""
        if not isinstance(value, dict):
            raise InputError(path, f"is {shown(value)}; it takes an object of {', '.join(self._fields)}")
        found = dict(self._defaults)
        for name, item in value.items():
            field = self._fields.get(name)
            if field is None:
                raise InputError((*path, name[:_LONGEST]), f"is no field here; there are {', '.join(self._fields)}")
            if item is not None:
                found[name] = field.kind.read(item, (*path, name))
        for name in self._required:
            if found[name] is None:
                raise InputError((*path, name), "is missing")
        return found


def text(*, longest: int = 0) -> Kind:
    """A text. longest: characters; 0 for no limit."""

    def read(value: Any, path: Path) -> str:
        found = text_of(value, path)
        if longest and len(found) > longest:
            raise InputError(path, f"has {len(found)} characters; at most {longest} are allowed")
        return found

    return Kind(read, {"type": "string"})


FLAG = Kind(flag_of, {"type": "boolean"})


def whole(least: int, most: int) -> Kind:
    """A whole number."""

    def read(value: Any, path: Path) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(path, f"is {shown(value)}; it takes a whole number")
        if not least <= value <= most:
            raise InputError(path, f"is {shown(value)}; it takes {least} to {most}")
        return value

    return Kind(read, {"type": "integer", "minimum": least, "maximum": most})


def number(least: float, most: float) -> Kind:
    """A number."""

    def read(value: Any, path: Path) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(path, f"is {shown(value)}; it takes a number")
        if not least <= value <= most:
            raise InputError(path, f"is {shown(value)}; it takes {least:g} to {most:g}")
        return float(value)

    return Kind(read, {"type": "number", "minimum": least, "maximum": most})


def one_of(*choices: str) -> Kind:
    """One of some texts."""

    def read(value: Any, path: Path) -> str:
        if value not in choices or not isinstance(value, str):
            raise InputError(path, f"is {shown(value)}; it takes {' or '.join(choices)}")
        return value

    return Kind(read, {"type": "string", "enum": list(choices)})


def unused(*values: Any) -> Kind:
    """What is not there: a field that may have a value which changes nothing."""

    def read(value: Any, path: Path) -> Any:
        if not any(type(value) is type(each) and value == each for each in values):
            neutral = f", or send {' or '.join(orjson.dumps(each).decode() for each in values)}" if values else ""
            raise InputError(path, f"is {shown(value)}, which is not done here; leave it out{neutral}")
        return value

    return Kind(read, {"enum": [*values, None]})


ANYTHING = Kind(lambda value, path: value, {})


def listed(kind: Kind, most: int) -> Kind:
    """A list of 1 to so many values."""

    def read(value: Any, path: Path) -> list[Any]:
        check_list(value, path, most)
        return [kind.read(each, (*path, place)) for place, each in enumerate(value)]

    return Kind(read, {"type": "array", "items": dict(kind.schema), "minItems": 1, "maxItems": most})


def check_list(value: Any, path: Path, most: int) -> None:
    """Raise InputError for what is no list of 1 to so many values."""
    if not isinstance(value, list):
        raise InputError(path, f"is {shown(value)}; it takes a list")
    if not 1 <= len(value) <= most:
        raise InputError(path, f"has {len(value)} entries; it takes 1 to {most}")


def one_or_more(kind: Kind, most: int) -> Kind:
    """A value, or a list of some; gives a list."""
    several = listed(kind, most)

    def read(value: Any, path: Path) -> Sequence[Any]:
        return several.read(value, path) if isinstance(value, list) else [kind.read(value, path)]

    return Kind(read, {"anyOf": [dict(kind.schema), dict(several.schema)]})


def object_of(form: Form) -> Kind:
    """An object of fields."""
    return Kind(form.read, form.schema)


# Of OpenAI's API, and those that follow it.
MODEL = Field("model", text(longest=_LONGEST_NAME), is_required=True)
OPTIONAL_MODEL = Field("model", MODEL.kind)
USER = Field("user", text())
