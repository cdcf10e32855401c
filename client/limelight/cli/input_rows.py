"""Files of instances: JSON lines, CSV, TSV and Parquet. A row is an instance, with the values of inputs by name."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from limelight.base.commands import CommandError
from limelight.base.counts import counted
from limelight.base.errors import InputError
from limelight.base.optional import package
from limelight.base.strings import quote
from limelight.base.values import Audio, Document, Image, Input, Pair, to_instance
from limelight.cli.inputs import as_array, as_graph
from limelight.descriptions import InputInfo, Model
from limelight.v1 import values_pb2

Row: TypeAlias = tuple[int, Any]
"""Number of the line, from 1 (of a Parquet file: of the row), and its values by name, or an InputError."""

_ROWS = 256  # of a Parquet file that are read at once


def rows(file: Path, model: Model) -> Iterator[Row]:
    """Yield the rows of a file by its ending.

    Raises:
        CommandError: another ending, a file that is not of its kind, or columns without the model's required inputs.
        OSError: the file cannot be read.
    """
    readers: dict[str, Callable[[Path, Model], Iterator[Row]]] = {
        ".jsonl": _json_lines,
        ".csv": _csv,
        ".tsv": _csv,
        ".parquet": _parquet,
    }
    if file.suffix.lower() not in readers:
        raise CommandError(f"{file} ends with none of {', '.join(readers)}", status=2)
    return readers[file.suffix.lower()](file, model)


def instances(file: Path, model: Model, *, after: int = 0) -> Iterator[tuple[int, values_pb2.Instance | InputError]]:
    """Yield the instances of a file's rows, or what is wrong with a row, by the number of the line.

    Args:
        after: number of the line behind which to begin.
    Raises: as `rows`.
    """
    for number, row in rows(file, model):
        if number <= after:
            continue
        try:
            yield number, instance_of(row, model, file.parent)
        except InputError as error:
            yield number, error
        except (OSError, TypeError) as error:
            yield number, InputError(str(error))


def _json_lines(file: Path, _: Model) -> Iterator[Row]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield number, InputError(f"the line is not JSON: {error}")


def _csv(file: Path, model: Model) -> Iterator[Row]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ",")
        try:
            names = next(reader, [])
            _check_columns(file, names, model)
            while True:
                number = reader.line_num + 1
                fields = next(reader, None)
                if fields is None:
                    return
                if len(fields) == len(names):
                    yield number, _paired(dict(zip(names, fields, strict=True)))
                elif fields:
                    yield (
                        number,
                        InputError(f"the line has {counted(len(fields), 'field')}, and the first line {len(names)}"),
                    )
        except (csv.Error, UnicodeDecodeError) as error:
            raise CommandError(f"{file} is not a table of UTF-8, near line {reader.line_num + 1}: {error}") from error


def _paired(row: dict[str, str]) -> dict[str, Any]:
    """Put the columns `pair.first` and `pair.second` together."""
    paired: dict[str, Any] = {}
    for name, value in row.items():
        whole, _, part = name.rpartition(".")
        if part in ("first", "second") and {f"{whole}.first", f"{whole}.second"} <= set(row):
            paired.setdefault(whole, {})[part] = value
        else:
            paired[name] = value
    return paired


def _parquet(file: Path, model: Model) -> Iterator[Row]:
    parquet = needed("pyarrow.parquet", "a Parquet file")
    try:
        opened = parquet.ParquetFile(file)
        _check_columns(file, opened.schema_arrow.names, model)
        number = 0
        for batch in opened.iter_batches(batch_size=_ROWS):
            for values in batch.to_pylist():
                number += 1
                yield number, values
    except needed("pyarrow", "a Parquet file").ArrowException as error:
        raise CommandError(f"{file} is not a Parquet file: {error}") from error


def needed(name: str, what: str) -> Any:
    """Import a package of an extra. Raises CommandError."""
    try:
        return package(name, what)
    except ModuleNotFoundError as error:
        raise CommandError(str(error)) from error


def _check_columns(file: Path, names: Sequence[str], model: Model) -> None:
    for each in model.required_inputs:
        there = [each.name, f"{each.name}.first"] if each.kind == "pair" else [each.name]
        if not set(there) & set(names):
            columns = ", ".join(map(repr, names)) or "none"
            what = f"{file} has no column {each.name!r}, an input of {model.name!r}"
            raise CommandError(f"{what}; its columns are {columns}: name the one that has it {each.name!r}")


def instance_of(row: Any, model: Model, folder: Path) -> values_pb2.Instance:
    """Build the instance of a row. Names that are no inputs of the model are left aside.

    Args:
        folder: of the file, to which the paths of pictures and recordings refer.
    Raises:
        InputError: the row has not what the model takes.
        OSError: a file cannot be read.
    """
    if isinstance(row, InputError):
        raise row
    required = model.required_inputs
    if not isinstance(row, Mapping) and len(required) == 1:
        row = {required[0].name: row}
    if not isinstance(row, Mapping):
        raise InputError(f"the line is no object with the inputs {', '.join(each.name for each in required)}")
    inputs = {each.name: each for each in model.inputs}
    for each in required:
        if row.get(each.name) is None:
            raise InputError(f"input {each.name!r} is missing; the line has {', '.join(map(repr, row)) or 'none'}")
    given = {
        name: _value(value, inputs[name], folder)
        for name, value in row.items()
        if name in inputs and value is not None and (value != "" or not inputs[name].optional)
    }
    return to_instance(given, "line")


def _value(value: Any, info: InputInfo, folder: Path) -> Input:
    """Convert a value of JSON, or of a table, to a value of an input."""
    match info.kind, value:
        case "text" | "document", str():
            return value
        case "document", list() if value and all(isinstance(each, str) for each in value):
            return Document(value)
        case "pair", [str() as first, str() as second]:
            return Pair(first, second)
        case "pair", {"first": str() as first, "second": str() as second}:
            return Pair(first, second)
        case "image" | "audio", str() | bytes() | {"bytes": bytes()}:  # the last as data sets of Hugging Face have them
            data = value["bytes"] if isinstance(value, dict) else value
            data = (folder / data).read_bytes() if isinstance(data, str) else data
            return Image(data) if info.kind == "image" else Audio(data)
        case "tensor" | "graph", _:
            try:
                value = json.loads(value) if isinstance(value, str) else value
                return as_array(value, info) if info.kind == "tensor" else as_graph(value, info.name)
            except (CommandError, ValueError) as error:
                raise InputError(str(error)) from error
    forms = {
        "text": "a text",
        "document": "a text, or a list of texts",
        "pair": 'two texts, ["first", "second"]',
        "image": "the path of a file",
        "audio": "the path of a file",
    }
    raise InputError(
        f"input {quote(info.name)} is {forms.get(info.kind, info.kind)}, not {json.dumps(value, default=str)[:60]}"
    )
