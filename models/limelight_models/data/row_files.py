"""Files of texts (TSV, CSV, JSON lines, Parquet, CoNLL) to examples; every complaint names file and line."""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from limelight_bundle.values import Image
from limelight_models.data import conll, parquet, sounds
from limelight_models.data.dataset import DataError, Example, FileRead, shown
from limelight_models.data.lines import lines
from limelight_models.data.rows import NAMES, TAGGED, Kind, string
from limelight_models.data.tables import TABLES, are_names, read_table, unknown_names

SUFFIXES = (
    *(f"{each}{packed}" for packed in ("", ".gz") for each in (*TABLES, ".jsonl")),
    parquet.SUFFIX,
    *conll.SUFFIXES,
)
_MORE = 8  # lines that a message names besides the first
_ENOUGH = 10  # examples from which on one that has its label for itself may be a line of names
_SURROGATE = re.compile(r"\\u[dD][89abAB-F]")
_ARCHIVE = "images.zip"


def read(
    path: Path, kind: Kind, *, columns: Sequence[str] = (), marked: Mapping[str, object] = MappingProxyType({})
) -> list[Example]:
    """Read examples of a kind, as `read_file` does."""
    return read_file(path, kind, columns=columns, marked=marked)[0]


def read_file(
    path: Path, kind: Kind, *, columns: Sequence[str] = (), marked: Mapping[str, object] = MappingProxyType({})
) -> tuple[list[Example], FileRead]:
    """Read examples of a kind, and tell how the file was read.

    TSV and CSV (`limelight_models.data.tables`): the kind's columns in order, `label<TAB>text`, or in any order below
    a line of their names. JSON lines and Parquet: objects with those keys, or `sentences` for a document whose
    sentences are known. Words with tags: a line a word.
    columns: what they are called in this file, in the kind's order, or their numbers in a table that does not begin
    with their names. marked: by the `id` of a line, the `evidence` in it.
    Raises: DataError naming the lines that are wrong.
    """
    if path.name.endswith(conll.SUFFIXES):
        if kind is not TAGGED:
            raise DataError(f"{path}: holds words with tags, not {kind}")
        return [kind.make(fields) for fields in conll.sentences(path)], FileRead(path, {})
    if columns and len(columns) != len(kind.columns):
        raise DataError(f"{', '.join(columns)}: {kind} have {len(kind.columns)} columns: {', '.join(kind.columns)}")
    if len(set(columns)) != len(columns):
        raise DataError(f"{', '.join(columns)}: names a column twice")
    blank: list[int] = []
    if path.name.removesuffix(".gz").endswith(TABLES):
        table = read_table(path, kind.columns, columns, NAMES, blank)
        examples = _examples(path, kind, table.records, marked)
        _check_first(path, kind, table.first, examples)
        return examples, FileRead(path, table.columns, tuple(blank))
    objects = parquet.records(path) if path.name.endswith(parquet.SUFFIX) else _json_lines(path, blank)
    first = next(objects, None)
    keys = {} if first is None else _keys(first[1], kind, columns)
    whole = chain([] if first is None else [first], objects)
    called = ((number, _called(content, kind, columns)) for number, content in whole)
    there = () if first is None or len(keys) == len(kind.columns) else tuple(first[1])
    examples = _examples(path, kind, called, marked, there)
    return examples, FileRead(path, {name: repr(key) for name, key in keys.items()}, tuple(blank))


def _examples(
    path: Path,
    kind: Kind,
    found: Iterator[tuple[int, Mapping[str, Any]]],
    marked: Mapping[str, object],
    keys: Sequence[str] = (),
) -> list[Example]:
    """The example of each record; keys: those of the first, where some of the kind's columns are not among them.

    Raises: DataError naming what is wrong with the first that is none, and the lines of others.
    """
    examples: list[Example] = []
    wrong: list[int] = []
    why: Exception | None = None
    try:
        for number, fields in found:
            try:
                seen = {"image": picture(path.parent, string(fields, "image"))} if kind.pictures else {}
                heard = {"audio": sounds.read(path.parent, string(fields, "audio"))} if kind.recordings else {}
                also = {"evidence": each} if (each := marked.get(str(fields.get("id")))) is not None else {}
                examples.append(kind.make({**fields, **seen, **heard, **also}))
            except ValueError as error:
                wrong.append(number)
                why = why or error
    except DataError:
        if not wrong:
            raise
    if wrong:
        unit = "row" if path.name.endswith(parquet.SUFFIX) else "line"
        there = ""
        if keys and str(why).startswith("has no "):
            there = f" (it has {shown(', '.join(keys))}; --columns says which of them are {', '.join(kind.columns)})"
        raise DataError(f"{path}, {unit} {wrong[0]}: {why}{there}{_others(unit, wrong[1:])}") from why
    return examples


def _others(unit: str, numbers: Sequence[int]) -> str:
    """Name other lines that are wrong."""
    if not numbers:
        return ""
    named = ", ".join(map(str, numbers[:_MORE]))
    more = f" and {len(numbers) - _MORE} more" if len(numbers) > _MORE else ""
    return f"; {unit}{'s' if len(numbers) > 1 else ''} {named}{more} cannot be read either"


def _check_first(path: Path, kind: Kind, first: Sequence[str], examples: Sequence[Example]) -> None:
    """Raise DataError where the first line, which was read as data, is one of names that are not known."""
    if "label" not in kind.columns or len(examples) < _ENOUGH or not are_names(first):
        return
    if not any(each.label == examples[0].label for each in examples[1:]):
        raise unknown_names(f"{path}, line 1", first, kind.columns)


def marks(folder: Path) -> Mapping[str, object]:
    """Marks for lines of another folder, by their `id`: the `evidence` of the JSON lines of a folder.

    Raises: DataError where there is none, or naming the line that has no id or marks.
    """
    found: dict[str, object] = {}
    for path in sorted(folder.glob("*.jsonl")) + sorted(folder.glob("*.jsonl.gz")):
        for number, line in lines(path):
            try:
                content = json.loads(line)
                found[str(content["id"])] = content["evidence"]
            except (ValueError, TypeError, KeyError) as error:
                raise DataError(f'{path}, line {number}: has no "id" with "evidence"') from error
    if not found:
        raise DataError(f"{folder}: has no JSON lines of what is marked")
    return found


def picture(folder: Path, name: str) -> Image:
    """A picture below a folder, or of the archive in it. Raises: ValueError where there is none of the name."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"the picture {shown(name, quoted=True)} is not below the folder")
    try:
        if path.is_file():
            return Image(path.read_bytes())
        with zipfile.ZipFile(folder / _ARCHIVE) as archive:
            return Image(archive.read(name))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"the picture {shown(name, quoted=True)} is neither in the folder nor in {_ARCHIVE}"
        ) from error


def _json_lines(path: Path, blank: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines(path, blank):
        try:
            content = json.loads(line)
            if not isinstance(content, dict):
                raise ValueError("is not a JSON object")
            if _SURROGATE.search(line):
                _check_texts(content, "")
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: is not JSON: {error}") from error
        except RecursionError as error:
            raise DataError(f"{path}, line {number}: is not JSON that can be read: too deep") from error
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        yield number, content


def _check_texts(value: object, where: str) -> None:
    """Raise ValueError where a text, wherever it stands, holds half of a surrogate pair, which is no character."""
    match value:
        case str():
            half = next((place for place, each in enumerate(value) if "\ud800" <= each <= "\udfff"), None)
            if half is not None:
                what = f"\\u{ord(value[half]):04x}"
                raise ValueError(f"{where or 'a key'} holds half of a surrogate pair, {what}, as character {half + 1}")
        case dict():
            for key, inner in value.items():
                _check_texts(key, "")
                _check_texts(inner, f'{where}["{shown(key)}"]' if where else f'"{shown(key)}"')
        case list():
            for place, inner in enumerate(value):
                _check_texts(inner, f"{where}[{place}]")


def _called(content: Mapping[str, Any], kind: Kind, columns: Sequence[str]) -> dict[str, Any]:
    """An object by a kind's own names. Where keys were chosen, others but the id may mean something else here."""
    known = {"id": content.get("id")} if columns else content
    return {**known, **{name: content.get(key) for name, key in _keys(content, kind, columns).items()}}


def _keys(content: Mapping[str, Any], kind: Kind, columns: Sequence[str]) -> dict[str, str]:
    """The key of an object for each column of a kind; a column is left out where the object has no such key."""
    if columns:
        return dict(zip(kind.columns, columns, strict=True))
    known = {name: next((key for key in (name, *NAMES.get(name, ())) if key in content), "") for name in kind.columns}
    return {name: key for name, key in known.items() if key}
