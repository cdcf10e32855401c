"""Names of outputs in requests: raw outputs, typed results, attention maps and label sets.

A request that names none gets the raw outputs and the results. Maps and label sets are returned only where they are
named.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from limelight.v1 import model_pb2
from limelight_bundle.errors import InputError, Path
from limelight_service.codecs.oip.datatypes import BYTES, FP32, FP64, INT32, DataType, of_wire
from limelight_service.frontend.schema import ModelSchema

ANY = -1  # size of an axis that varies
_LONGEST = 64  # characters of a name that is repeated to its caller
LABELS = ".labels"


class Source(Enum):
    """The origin of an output."""

    RAW = auto()
    RESULT = auto()
    MAP = auto()
    LABEL_SET = auto()


@dataclass(frozen=True)
class Output:
    """An output that a request can name.

    shape: sizes with the rows first, -1 for what varies. of: the raw output, result, map or label set.
    """

    name: str
    type: DataType
    shape: tuple[int, ...]
    source: Source
    of: str


class OutputCatalogue:
    """The outputs of one model. Where two have one name, the raw output counts, then the result."""

    def __init__(self, schema: ModelSchema) -> None:
        description = schema.description
        self.usual = tuple(_first_of_name([*_raw(description), *_results(schema)]))
        self.maps = tuple(_maps(description))
        self.label_sets = tuple(_label_sets(description))
        self._known = {each.name: each for each in _first_of_name([*self.usual, *self.maps, *self.label_sets])}

    def find(self, name: str, path: Path) -> Output:
        """Find an output. Raises: InputError naming what there is."""
        found = self._known.get(name)
        if found is None:
            there = ", ".join(self._known)
            raise InputError(path, f"is {name[:_LONGEST]!r}, which the model lacks; it has {there}")
        return found


def _first_of_name(outputs: Iterable[Output]) -> Iterable[Output]:
    found: dict[str, Output] = {}
    for each in outputs:
        found.setdefault(each.name, each)
    return found.values()


def _raw(description: model_pb2.ModelDescription) -> Iterator[Output]:
    for each in description.outputs:
        axes = [axis.size or ANY for axis in each.dimensions]
        yield Output(each.name, of_wire(each.data_type), (ANY, *axes), Source.RAW, each.name)


def _results(schema: ModelSchema) -> Iterator[Output]:
    for result in schema.results:
        for suffix, kind, axes in _RESULT_PARTS[result.WhichOneof("kind") or ""](result):
            yield Output(result.name + suffix, kind, (ANY, *axes), Source.RESULT, result.name)


_Parts = tuple[tuple[str, DataType, tuple[int, ...]], ...]


def _classes_parts(result: model_pb2.ResultDescription) -> _Parts:
    axes = (ANY, ANY) if result.classes.label_set else (ANY,)
    return ("", BYTES, axes), (".probability", FP32, axes)


def _sequence_parts(result: model_pb2.ResultDescription) -> _Parts:
    return ("", BYTES, (ANY,)), (".token_ids", INT32, (ANY, ANY)), (".log_probabilities", FP32, (ANY, ANY))


def _spans_parts(result: model_pb2.ResultDescription) -> _Parts:
    bounds = tuple((name, INT32, (ANY,)) for name in (".start", ".end"))
    none = ((".none_probability", FP32, (1,)),) if result.spans.first_token_is_none else ()
    return ("", BYTES, (ANY,)), *bounds, (".probability", FP32, (ANY,)), *none


def _boxes_parts(result: model_pb2.ResultDescription) -> _Parts:
    return ("", BYTES, (ANY,)), (".box", FP32, (ANY, 4)), (".probability", FP32, (ANY,)), (".query", INT32, (ANY,))


_RESULT_PARTS: Mapping[str, Callable[[model_pb2.ResultDescription], _Parts]] = {
    "classes": _classes_parts,
    "embedding": lambda result: (("", FP32, (ANY,)),),
    "token_vectors": lambda result: (("", FP32, (ANY, ANY)),),
    "spans": _spans_parts,
    "boxes": _boxes_parts,
    "sequence": _sequence_parts,
    "regression": lambda result: (("", FP64, (len(result.regression.targets),)),),
}


def _maps(description: model_pb2.ModelDescription) -> Iterator[Output]:
    for each in description.maps:
        features = (each.features,) if each.features else ()
        yield Output(each.name, FP32, (ANY, each.heads, ANY, ANY, *features), Source.MAP, each.name)


def _label_sets(description: model_pb2.ModelDescription) -> Iterator[Output]:
    for each in description.label_sets:
        size = len(each.names) or ANY
        yield Output(each.name + LABELS, BYTES, (ANY, size), Source.LABEL_SET, each.name)
