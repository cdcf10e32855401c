"""Inputs over which the attention of an imported model is observed, as the caller gives them in a file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from limelight.base.errors import InputError
from limelight.base.values import Document, Pair, to_instance
from limelight.v1 import model_pb2
from limelight_bundle.attention_drift import FEWEST_INPUTS
from limelight_bundle.rows import tensor_descriptions
from limelight_bundle.values import Instance
from limelight_bundle.wire import DTYPES, instance_from_wire
from limelight_export.errors import ExportError
from limelight_export.importing.numbers import as_numbers


def read_references(file: Path, inputs: Sequence[model_pb2.InputDescription]) -> tuple[Instance, ...]:
    """Read inputs, one a line: JSON where the file ends with `.jsonl`, texts otherwise.

    JSON is an object of values by input, or the value of the only one: texts, lists of texts, two texts for a pair,
    paths of files from the folder of this one, numbers. In a line of text a tab separates the texts of a pair.

    Raises:
        ExportError: the file cannot be read, a line is not what the model takes, or there are too few.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            field = f"{file}: line {number}"
            try:
                given = json.loads(line) if file.suffix.lower() == ".jsonl" else line.removesuffix("\r")
                found.append(instance_from_wire(to_instance(_values(given, inputs, file.parent), field), (field,)))
            except (InputError, OSError, RecursionError, TypeError, ValueError) as error:
                raise ExportError(f"{field}: {error}") from error
    check_enough(found, str(file))
    return tuple(found)


def check_enough(instances: Sequence[Any], what: str) -> None:
    """Raise ExportError where there are too few inputs for a reference. what: they are called in the message."""
    if len(instances) < FEWEST_INPUTS:
        raise ExportError(f"{what} has {len(instances)} inputs; a reference of attention needs {FEWEST_INPUTS}")


def _values(given: Any, inputs: Sequence[model_pb2.InputDescription], folder: Path) -> dict[str, Any]:
    """Return the values of a line as a caller would send them. Raises ValueError for what the model does not take."""
    required = [each.name for each in inputs if not each.optional]
    if not isinstance(given, Mapping) and len(required) == 1:
        given = {required[0]: given}
    if not isinstance(given, Mapping) or not set(required) <= set(given):
        raise ValueError(f"it must be an object with the inputs {', '.join(required)}")
    types = {each.name: DTYPES[each.data_type] for each in tensor_descriptions(inputs)}
    made: dict[str, Any] = {}
    for each in inputs:
        if each.name in given:
            match each.kind, given[each.name]:
                case model_pb2.INPUT_KIND_PAIR, str(text) if text.count("\t") == 1:
                    made[each.name] = Pair(*text.split("\t"))
                case (
                    model_pb2.INPUT_KIND_PAIR,
                    [str(first), str(second)] | {"first": str(first), "second": str(second)},
                ):
                    made[each.name] = Pair(first, second)
                case model_pb2.INPUT_KIND_TEXT | model_pb2.INPUT_KIND_DOCUMENT, str(text):
                    made[each.name] = text
                case model_pb2.INPUT_KIND_DOCUMENT, [*texts]:
                    made[each.name] = Document(texts)
                case model_pb2.INPUT_KIND_IMAGE | model_pb2.INPUT_KIND_AUDIO, str(name):
                    made[each.name] = folder / name
                case model_pb2.INPUT_KIND_TENSOR, numbers if each.name in types:
                    made[each.name] = as_numbers(numbers, types[each.name])
                case kind, other:  # graphs too, which no file has
                    name = model_pb2.InputKind.Name(kind).removeprefix("INPUT_KIND_").lower()
                    raise ValueError(f"input {each.name!r} cannot be read as {name}: {other!r:.40}")
    return made
