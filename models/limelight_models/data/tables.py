"""The records of TSV and CSV files, and which of their columns are which; every complaint names the line.

CSV: fields between commas, quoted where they hold commas, quotes (doubled) or line ends (RFC 4180).
TSV: fields between tabs. A file whose fields are wholly quoted, as spreadsheets write those with quotes in them, is
read without the quotes; in any other file quotes are text like all the rest.
"""

import csv
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from limelight.base.counts import counted
from limelight_models.data.dataset import DataError, shown
from limelight_models.data.lines import lines, whole_lines

TABLES = (".tsv", ".csv")
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(?=\t|$)')
_NAME = re.compile(r"[^\W\d][\w .-]{0,30}")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a text is as long as it is


@dataclass(frozen=True)
class Table:
    """A file of records.

    columns: by the wanted names, where each stands: the name in the file's first line, or `column 2`. first: the first
    line's fields, where they are data and no names. records: each by the wanted names, numbered by the line on which it
    begins.
    """

    columns: Mapping[str, str]
    first: Sequence[str]
    records: Iterator[tuple[int, dict[str, str]]]


def read_table(
    path: Path,
    wanted: Sequence[str],
    columns: Sequence[str],
    others: Mapping[str, Sequence[str]],
    blank: list[int] | None = None,
) -> Table:
    """Read a file; its records are read as they are asked for.

    wanted: the fields in order, where no line says which is which. columns: how this file calls them, or numbers from 1
    where it begins with no names. others: names that mean the same. An `id` is kept where a line of names has it.
    blank: gets the numbers of the lines that are left out.
    Raises: DataError naming the line that has too many fields, or too few, or a quote that is never closed.
    """
    found = _csv(path, blank) if _is_csv(path) else _tsv(path, blank)
    try:
        number, fields = next(found)
    except StopIteration:
        return Table({}, (), iter(()))
    names = _names(fields, wanted, columns, others)
    if names:
        called = {name: repr(field.strip()) for name, field in zip(names, fields, strict=True) if name in wanted}
        return Table(called, (), _records(path, names, fields, found))
    if not columns and len(fields) != len(wanted) and are_names(fields):
        hint = (
            f"where {shown(', '.join(fields))} are names of columns, say with --columns which are {', '.join(wanted)}"
        )
        raise DataError(f"{_has(path, number, fields, wanted)}; {hint}, in this order")
    names = _positions(fields, wanted, columns, f"{path}, line {number}")
    called = {name: f"column {place}" for place, name in enumerate(names, 1) if name}
    known = names if columns else wanted
    return Table(called, fields, _records(path, names, known, chain([(number, fields)], found)))


def are_names(fields: Sequence[str]) -> bool:
    """Tell whether fields look like names of columns."""
    return len(fields) > 1 and all(_NAME.fullmatch(field.strip()) for field in fields)


def unknown_names(where: str, fields: Sequence[str], wanted: Sequence[str]) -> DataError:
    """Make the error for a line of names of which nobody knows what they mean."""
    return DataError(
        f"{where}: {shown(', '.join(fields))} seem to be the names of columns, and which of them are "
        f"{', '.join(wanted)} is not known. Say it with --columns, in this order"
    )


def _records(
    path: Path, names: Sequence[str], known: Sequence[str], found: Iterator[tuple[int, list[str]]]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Each record by its names; known: what the message calls the columns."""
    for number, fields in found:
        if len(fields) != len(names):
            raise DataError(_has(path, number, fields, known))
        yield number, {name: field for name, field in zip(names, fields, strict=True) if name}


def _has(path: Path, number: int, fields: Sequence[str], known: Sequence[str]) -> str:
    """Say that a line has too few fields, or too many; known: what the columns are called."""
    wanted = shown(("," if _is_csv(path) else "<TAB>").join(name or "..." for name in known))
    return f"{path}, line {number}: has {counted(len(fields), 'field')}; {wanted} is wanted{_hint(path, fields)}"


def _is_csv(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".csv")


def _hint(path: Path, fields: Sequence[str]) -> str:
    """Say what is likely to be wrong with a line that has too few fields, or too many."""
    if any(field.startswith('"') and not field.endswith('"') for field in fields) and not _is_csv(path):
        return " (a quoted field ends on its own line; texts of several lines go into a .csv or .jsonl file)"
    if not _is_csv(path):
        return ""
    if len(fields) == 1:
        return next((f" ({name} part its fields; a .csv has commas)" for sign, name in _SIGNS if sign in fields[0]), "")
    return " (a text with a comma in it stands in quotes)"


_SIGNS = (("\t", "tabs"), (";", "semicolons"))


def _names(
    fields: Sequence[str], wanted: Sequence[str], columns: Sequence[str], others: Mapping[str, Sequence[str]]
) -> list[str]:
    """The first line's names of the wanted columns, "" for those not read; empty if it is data."""
    given = [field.strip() for field in fields]
    lower = [name.lower() for name in given]
    if columns and set(columns) <= set(given):
        called = dict(zip(columns, wanted, strict=True))
        return [called.get(name, "id" if name == "id" else "") for name in given]
    places: dict[int, str] = {}
    for name in wanted:
        found = next((lower.index(each) for each in (name, *others.get(name, ())) if each in lower), None)
        if found is None or found in places:
            break
        places[found] = name
    else:
        if not columns:
            return [places.get(place, "id" if name == "id" else "") for place, name in enumerate(lower)]
        return _numbered(columns, wanted, len(fields))  # by number, and the line of names is left out
    if columns or len(fields) != len(wanted):
        return []
    of_languages = tuple(wanted) == ("source", "target") and all(map(_LANGUAGE.fullmatch, lower))
    return list(wanted) if lower[0] == wanted[0] == "label" or of_languages else []


def _positions(fields: Sequence[str], wanted: Sequence[str], columns: Sequence[str], where: str) -> list[str]:
    """The field of each column, where the first line is data."""
    if not columns:
        return list(wanted)
    if not all(each.isdecimal() for each in columns):
        missing = next(each for each in columns if each not in [field.strip() for field in fields])
        there = shown(", ".join(fields))
        raise DataError(
            f"{where}: has no column {shown(missing, quoted=True)}; there are {there}. Where a file does not begin "
            "with the names of its columns, --columns are their numbers, as 2,1"
        )
    found = _numbered(columns, wanted, len(fields))
    if not found:
        raise DataError(f"{where}: has {counted(len(fields), 'field')}, and no column {max(map(int, columns))} or 0")
    return found


def _numbered(columns: Sequence[str], wanted: Sequence[str], count: int) -> list[str]:
    """The field of each column, where they are chosen by number; empty where one is not there."""
    numbers = [int(each) if each.isdecimal() else 0 for each in columns]
    if not all(1 <= number <= count for number in numbers):
        return []
    called = dict(zip(numbers, wanted, strict=True))
    return [called.get(place, "") for place in range(1, count + 1)]


def _csv(path: Path, blank: list[int] | None) -> Iterator[tuple[int, list[str]]]:
    begun = 1  # the line on which a record begins
    last = 0

    def counted() -> Iterator[str]:
        nonlocal last
        for number, line in whole_lines(path):
            last = number
            yield line

    reader = csv.reader(counted(), strict=True)
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = "unexpected end of data" in str(error)
            what = "opens a quote that is never closed" if unclosed else "has text behind a closing quote"
            raise DataError(f"{path}, line {begun}: {what}; a quote inside of a quoted field is doubled") from error
        if any(field.strip() for field in fields):
            yield begun, fields
        elif blank is not None:
            blank.append(begun)
        begun = last + 1


def _tsv(path: Path, blank: list[int] | None) -> Iterator[tuple[int, list[str]]]:
    found = list(lines(path, blank))
    if not any(line.startswith('"') or '\t"' in line for _, line in found):
        yield from ((number, line.split("\t")) for number, line in found)
        return
    split = [(number, line, _split(line)) for number, line in found]
    openings = [quoted for _, _, fields in split for field, quoted in fields if quoted or field.startswith('"')]
    if 2 * sum(openings) <= len(openings):  # quotes are text
        yield from ((number, line.split("\t")) for number, line in found)
        return
    for number, _, fields in split:
        if any(field.startswith('"') and not quoted for field, quoted in fields):
            raise DataError(
                f"{path}, line {number}: opens a quote that it does not close as the other fields do; double the "
                "quotes inside of a quoted field, and put texts of several lines into a .csv or .jsonl file"
            )
        yield number, [field for field, _ in fields]


def _split(line: str) -> list[tuple[str, bool]]:
    """The fields of a line, and which of them were wholly quoted; those are without their quotes."""
    fields: list[tuple[str, bool]] = []
    begin = 0
    while True:
        quoted = _QUOTED.match(line, begin)
        end = quoted.end() if quoted else line.find("\t", begin)
        end = len(line) if end < 0 else end
        fields.append((quoted[1].replace('""', '"'), True) if quoted else (line[begin:end], False))
        if end >= len(line):
            return fields
        begin = end + 1
