"""Texts in plain files: TSV and JSON lines, gzipped or not, to examples; every complaint names file and line."""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bundle.values import Sentences, Text
from models.data.dataset import DataError, Example

SUFFIXES = (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz")
DOCUMENTS, PAIRS = "documents", "pairs"
_LANGUAGE = re.compile(r"[a-z]{2,3}")


def read(path: Path, kind: str) -> list[Example]:
    """Read labelled documents or pairs of texts.

    TSV: label<TAB>text, or source<TAB>target; a header line is left out. JSON lines: {"label", and "text", "document"
    or "sentences"}, or {"source", "target"}.
    Raises: DataError naming the line that is wrong.
    """
    parse = _tsv if path.name.removesuffix(".gz").endswith(".tsv") else _json
    examples = []
    for number, line in lines(path):
        try:
            example = parse(line, kind, first=number == 1)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        if example:
            examples.append(example)
    return examples


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers from 1."""
    number = 0
    try:
        with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if text.strip():
                    yield number, text
    except UnicodeDecodeError as error:
        raise DataError(f"{path}, line {number}: is not UTF-8") from error
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def _tsv(line: str, kind: str, *, first: bool) -> Example | None:
    fields = line.split("\t")
    if len(fields) != 2:
        wanted = "label<TAB>text" if kind == DOCUMENTS else "source<TAB>target"
        raise ValueError(f"has {len(fields)} fields; {wanted} is wanted")
    if first and _is_header(fields, kind):
        return None
    if kind == DOCUMENTS:
        return document(fields[0], fields[1])
    return pair(*fields)


def _is_header(fields: list[str], kind: str) -> bool:
    """Tell a line of names: `label`, then anything; or `source`, `target`; or two language codes."""
    if kind == DOCUMENTS:
        return fields[0].strip().lower() == "label"
    names = [field.strip().lower() for field in fields]
    return names == ["source", "target"] or all(_LANGUAGE.fullmatch(field) for field in fields)


def _json(line: str, kind: str, *, first: bool) -> Example:
    try:
        content = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError("is not a JSON object")
    if kind == PAIRS:
        return pair(_string(content, "source"), _string(content, "target"))
    label = content.get("label")
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise ValueError('has no "label" that is a text or a whole number')
    if "sentences" in content:
        return document(str(label), content["sentences"])
    return document(str(label), _string(content, "document" if "document" in content else "text"))


def _string(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        raise ValueError(f'has no "{name}" that is a text')
    return value


def document(label: str, content: Any) -> Example:
    """A labelled document, raw text or a list of sentences. Raises: ValueError where something is empty or no text."""
    if not label.strip():
        raise ValueError("has an empty label")
    if isinstance(content, str):
        if not content.strip():
            raise ValueError("has an empty text")
        return Example({"document": Text(content)}, label.strip())
    if not isinstance(content, list) or not all(isinstance(each, str) for each in content):
        raise ValueError('"sentences" is no list of texts')
    sentences = tuple(each for each in content if each.strip())
    if not sentences:
        raise ValueError("has no sentence")
    return Example({"document": Sentences(sentences)}, label.strip())


def pair(source: str, target: str) -> Example:
    """A text and what it is to become. Raises: ValueError where one is empty."""
    if not source.strip() or not target.strip():
        raise ValueError("has an empty source or target")
    return Example({"text": Text(source), "target": Text(target)})
