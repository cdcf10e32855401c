"""The rows of a door: texts, pairs of texts and token ids, each for the only input of a model that takes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Instance, Pair, TensorValue, Text
from limelight_service.codecs.doors.fields import Kind, check_list
from limelight_service.codecs.json.numbers import shown
from limelight_service.errors import WrongModelError
from limelight_service.frontend.interventions import Intervention
from limelight_service.frontend.schema import ModelSchema

T = TypeVar("T")

MOST_ROWS = 2_048  # of one request, as OpenAI has it
_TEXTS = (model_pb2.INPUT_KIND_TEXT, model_pb2.INPUT_KIND_DOCUMENT)
_PAIRS = (model_pb2.INPUT_KIND_PAIR,)


@dataclass(frozen=True)
class Ids:
    """Token ids of a text, as its tokenizer makes them, special tokens included."""

    ids: Sequence[int]


@dataclass(frozen=True)
class Late:
    """A text that only the model's own means can make, on a thread. make: of its schema; raises InputError."""

    make: Callable[[ModelSchema], Text]


Value = Text | Pair | Ids | Late


class Rows:
    """Rows of a request, an `InstanceSource` of the frontend."""

    def __init__(self, values: Sequence[Value], paths: Sequence[Path], size: int, seeds: Sequence[int] = ()) -> None:
        """Make them. paths: of each row. size: bytes of all of them, about. seeds: of each; empty for none."""
        self.values, self.paths, self.size, self.seeds = values, paths, size, seeds
        kinds = set(map(type, values))
        self.has_tensors_only, self._has_late = kinds == {Ids}, Late in kinds
        self.has_interventions = False

    @staticmethod
    def of(values: Sequence[tuple[Value, Path]], size: int) -> "Rows":
        """Make rows of values with their paths. size: as of `Rows`."""
        return Rows([value for value, _ in values], [path for _, path in values], size)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> "Rows":
        values = self.values[part]
        share = self.size * len(values) // max(1, len(self.values))
        return Rows(values, self.paths[part], share, self.seeds[part])

    @property
    def characters(self) -> int:
        """Count the characters of all texts."""
        pairs = sum([len(each.first) + len(each.second) for each in self.values if isinstance(each, Pair)])
        return pairs + sum([len(each.text) for each in self.values if isinstance(each, Text)])

    def path(self, place: int) -> Path:
        """Give the path of a row in the request."""
        return self.paths[place]

    def has_files(self, schema: ModelSchema) -> bool:
        """Tell whether some row takes a while to make; none is an image or a recording."""
        return self._has_late

    def read(self, place: int, schema: ModelSchema) -> Instance:
        """Give a row as the model's input. Raises: InputError where the model takes no such row."""
        value, path = self.values[place], self.paths[place]
        if isinstance(value, Late):
            value = value.make(schema)
        described = _input(schema, _PAIRS if isinstance(value, Pair) else _TEXTS, path)
        if not isinstance(value, Ids):
            return {described.name: value}
        ids = np.asarray(value.ids, np.int64)
        first, *others = described.tensors
        return {first.name: TensorValue(ids), **{each.name: TensorValue(np.zeros_like(ids)) for each in others}}

    def interventions(self, place: int) -> Sequence[Intervention]:
        """Give none."""
        return ()

    def seed(self, place: int) -> int | None:
        """Give the seed of a row; None where there is none."""
        return self.seeds[place] if self.seeds else None


@dataclass(frozen=True)
class Gives:
    """What a door needs of a model. what: in words, as "gives embeddings"."""

    what: str
    of: Callable[[ModelSchema], bool]


def per_model(find: Callable[[ModelSchema], T]) -> Callable[[ModelSchema], T]:
    """Remember what is found of a model, for as long as there is the model."""
    known: WeakKeyDictionary[ModelSchema, T] = WeakKeyDictionary()

    def found(schema: ModelSchema) -> T:
        try:
            return known[schema]
        except KeyError:
            return known.setdefault(schema, find(schema))

    return found


def takes_texts(schema: ModelSchema) -> bool:
    """Tell whether a text alone is what a model takes."""
    return len(schema.required) == 1 and schema.required[0].kind in _TEXTS


def takes_pairs(schema: ModelSchema) -> bool:
    """Tell whether a pair of texts alone is what a model takes."""
    return len(schema.required) == 1 and schema.required[0].kind in _PAIRS


def text_rows(most: int = MOST_ROWS) -> Kind:
    """A text, token ids, or a list of some of either; gives a list of (value, path)."""

    def read(value: Any, path: Path) -> list[tuple[Value, Path]]:
        if isinstance(value, str):
            return [(Text(value), path)]
        if not isinstance(value, list):
            raise InputError(path, f"is {shown(value)}; it takes a text, token ids, or a list of some of either")
        if _are_ids(value):
            return [(Ids(value), path)]
        check_list(value, path, most)
        return [(_row(each, (*path, place)), (*path, place)) for place, each in enumerate(value)]

    ids = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
    several = {"type": "array", "items": {"anyOf": [{"type": "string"}, ids]}, "minItems": 1, "maxItems": most}
    return Kind(read, {"anyOf": [{"type": "string"}, ids, several]})


def id_rows(most: int) -> Kind:
    """Token ids, or a list of some; gives a list of them."""

    def read(value: Any, path: Path) -> list[list[int]]:
        if isinstance(value, list) and _are_ids(value):
            return [value]
        check_list(value, path, most)
        found: list[list[int]] = value
        for place, each in enumerate(found):
            if not isinstance(each, list) or not _are_ids(each):
                raise InputError((*path, place), f"is {shown(each)}; it takes a list of token ids")
        return found

    ids = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
    return Kind(read, {"anyOf": [ids, {"type": "array", "items": ids, "minItems": 1, "maxItems": most}]})


def _row(value: Any, path: Path) -> Value:
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, list) and _are_ids(value):
        return Ids(value)
    raise InputError(path, f"is {shown(value)}; it takes a text, or a list of token ids")


def _are_ids(values: Any) -> bool:
    return bool(values) and set(map(type, values)) == {int} and min(values) >= 0 and max(values) < 2**31


def _input(schema: ModelSchema, kinds: Sequence[int], path: Path) -> model_pb2.InputDescription:
    """Find the input that takes a row. Raises: InputError, WrongModelError."""
    needed = schema.required
    if len(needed) == 1 and needed[0].kind in kinds:
        return needed[0]
    if len(needed) == 1 and needed[0].kind in (*_TEXTS, *_PAIRS):
        takes = "two texts, read as a pair" if needed[0].kind in _PAIRS else "one text"
        raise InputError(path, f"does not fit: {schema.name} takes {takes}")
    raise WrongModelError(f"{schema.name} takes {', '.join(each.name for each in needed)}; only texts can be sent here")
