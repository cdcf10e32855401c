"""Texts in plain files: TSV, CSV and JSON lines, gzipped or not, to examples; every complaint names file and line."""

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bundle.values import Image, Pair, Sentences, Text
from models.data import conll, parquet
from models.data.dataset import DataError, Example, FileRead, shown
from models.data.gold import Gold, Span
from models.data.lines import lines
from models.data.marked import aligned, evidence
from models.data.tables import TABLES, are_names, read_table, unknown_names

SUFFIXES = (
    *(f"{each}{packed}" for packed in ("", ".gz") for each in (*TABLES, ".jsonl")),
    parquet.SUFFIX,
    *conll.SUFFIXES,
)
_MORE = 8  # lines that a message names besides the first
_ENOUGH = 10  # examples from which on one that has its label for itself may be a line of names
_SURROGATE = re.compile(r"\\u[dD][89abAB-F]")
# Other names under which data sets have the same thing.
NAMES = {
    "text": ("document", "sentence", "review", "comment", "content", "message"),
    "first": ("premise", "sentence1", "text1"),
    "second": ("hypothesis", "sentence2", "text2"),
    "question": ("sentence",),
    "target": ("caption",),
    "label": ("answer", "labels", "class", "category", "sentiment"),
}
_ARCHIVE = "images.zip"


@dataclass(frozen=True)
class Kind:
    """What the lines of a file hold. columns: of a TSV file, in order, and keys of a JSON object; make: one example.

    pictures: whether `image` is the path of a picture, from the file's folder or in `images.zip` there; `make` gets it.
    """

    name: str
    columns: tuple[str, ...]
    make: Callable[[Mapping[str, Any]], Example]
    pictures: bool = False

    def __str__(self) -> str:
        return self.name


def read(
    path: Path, kind: Kind, *, columns: Sequence[str] = (), marked: Mapping[str, object] = MappingProxyType({})
) -> list[Example]:
    """Read examples of a kind, as `read_file` does."""
    return read_file(path, kind, columns=columns, marked=marked)[0]


def read_file(
    path: Path, kind: Kind, *, columns: Sequence[str] = (), marked: Mapping[str, object] = MappingProxyType({})
) -> tuple[list[Example], FileRead]:
    """Read examples of a kind, and tell how the file was read.

    TSV and CSV (`models.data.tables`): the kind's columns in order, `label<TAB>text`, or in any order below a line of
    their names. JSON lines and Parquet: objects with those keys, or `sentences` for a document whose sentences are
    known. Words with tags: a line a word.
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
                seen = {"image": picture(path.parent, _string(fields, "image"))} if kind.pictures else {}
                also = {"evidence": each} if (each := marked.get(str(fields.get("id")))) is not None else {}
                examples.append(kind.make({**fields, **seen, **also}))
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
    """What people marked in lines that are elsewhere, by their `id`: the `evidence` of the JSON lines of a folder.

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


def _string(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        raise ValueError(f'has no "{name}" that is a text')
    return value


def _filled(content: Mapping[str, Any], name: str) -> Text:
    value = _string(content, name)
    if not value.strip():
        raise ValueError(f"has an empty {name}")
    return Text(value)


def _label(content: Mapping[str, Any]) -> str:
    label = content.get("label")
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise ValueError('has no "label" that is a text or a whole number')
    if not str(label).strip():
        raise ValueError("has an empty label")
    return str(label).strip()


def document(content: Mapping[str, Any]) -> Example:
    """A labelled document, raw text or a list of sentences. Raises: ValueError where something is empty or no text."""
    label, sentences = _label(content), content.get("sentences")
    if sentences is None:
        return Example({"document": _filled(content, "text")}, label)
    if not isinstance(sentences, list) or not all(isinstance(each, str) for each in sentences):
        raise ValueError('"sentences" is no list of texts')
    real = tuple(each for each in sentences if each.strip())
    if not real:
        raise ValueError("has no sentence")
    return Example({"document": Sentences(real)}, label, gold=evidence(content.get("evidence", []), sentences))


def text(content: Mapping[str, Any]) -> Example:
    """A labelled text; sentences, and what people marked in them, become one. Raises: ValueError as `document`."""
    made = document(content)
    match made.instance["document"]:
        case Sentences(sentences):
            starts = [0, *accumulate(len(each) + 1 for each in sentences)]
            marked = (key for gold in made.gold if gold.of for key in gold.keys if isinstance(key, Span))
            keys = tuple(
                Span("text", starts[key.sentence] + key.start, starts[key.sentence] + key.end)
                for key in marked
                if key.sentence is not None
            )
            gold = (Gold(keys),) if keys else ()
            return Example({"text": Text(" ".join(sentences))}, made.label, gold=gold)
        case whole:
            return Example({"text": whole}, made.label)


def pair(content: Mapping[str, Any]) -> Example:
    """A text and what it is to become; or words of both (`src`, `tgt`), and links between them that people made: `sure`
    ones, and `possible` ones, [source word, target word]. Raises: ValueError where something is empty, or no link.
    """
    if "src" in content:
        return aligned(content)
    source, target = _string(content, "source"), _string(content, "target")
    if not source.strip() or not target.strip():
        raise ValueError("has an empty source or target")
    return Example({"text": Text(source), "target": Text(target)})


def text_pair(content: Mapping[str, Any]) -> Example:
    """Two labelled texts. Raises: ValueError where something is empty or no text."""
    first, second = _filled(content, "first"), _filled(content, "second")
    return Example({"pair": Pair(first.text, second.text)}, _label(content))


def aspect(content: Mapping[str, Any]) -> Example:
    """A labelled target between its left and its right, "." where there is none. Raises: ValueError as the others."""
    sides = {name: side(_string(content, name)) for name in ("left", "right")}
    return Example({**sides, "target": _filled(content, "target")}, _label(content))


def side(text: str) -> Text:
    """What stands on one side of a target: "." where there is nothing."""
    return Text(text.strip() or ".")


def aspect_question(content: Mapping[str, Any]) -> Example:
    """The same as a pair: a question about the target, and the whole sentence as its answer."""
    target = _filled(content, "target").text.strip()
    parts = (_string(content, "left").strip(), target, _string(content, "right").strip())
    return Example({"pair": Pair(f"what about the {target}?", " ".join(filter(None, parts)))}, _label(content))


def letters(*texts: str) -> str:
    """The letters and digits of texts, whatever stands between them: the same for a sentence however it was cut."""
    return "".join(filter(str.isalnum, "".join(texts)))


def caption(content: Mapping[str, Any]) -> Example:
    """A picture and a text that describes it. Raises: ValueError where the text is empty."""
    return Example({"image": content["image"], "target": _filled(content, "target")})


def question(content: Mapping[str, Any]) -> Example:
    """A picture, a question (or a statement) and its answer. Raises: ValueError as the others."""
    label = content.get("label")
    named = {**content, "label": str(label).lower()} if isinstance(label, bool) else content
    return Example({"image": content["image"], "question": _filled(content, "question")}, _label(named))


def mask(content: Mapping[str, Any]) -> Example:
    """A picture and the classes of its cells, row by row, "" where none is known. Raises: ValueError for others."""
    labels = content.get("labels")
    if not isinstance(labels, list) or not labels or not all(isinstance(row, list) for row in labels):
        raise ValueError('"labels" is no list of rows of classes')
    if len({len(row) for row in labels}) > 1 or not all(isinstance(each, str) for row in labels for each in row):
        raise ValueError('"labels" has rows of different lengths, or a class that is no text')
    return Example({"image": content["image"]}, labels=tuple(each for row in labels for each in row))


def tagged(content: Mapping[str, Any]) -> Example:
    """Words and the tag of each. Raises: ValueError where there are none, or of one more than of the other."""
    words, tags = content.get("words"), content.get("tags")
    for name, each in (("words", words), ("tags", tags)):
        if not isinstance(each, list) or not each or not all(isinstance(one, str) and one.strip() for one in each):
            raise ValueError(f'has no "{name}" that are a list of texts')
    assert words and tags
    if len(words) != len(tags):
        raise ValueError(f"has {len(words)} words and {len(tags)} tags")
    return Example({"document": Sentences(tuple(words))}, labels=tuple(tags))


DOCUMENTS = Kind("documents", ("label", "text"), document)
TEXTS = Kind("texts", ("label", "text"), text)
PAIRS = Kind("pairs", ("source", "target"), pair)
TEXT_PAIRS = Kind("pairs of texts", ("label", "first", "second"), text_pair)
ASPECTS = Kind("targets in sentences", ("label", "left", "target", "right"), aspect)
ASPECT_QUESTIONS = Kind("questions about targets in sentences", ASPECTS.columns, aspect_question)
CAPTIONS = Kind("captions of pictures", ("image", "target"), caption, pictures=True)
QUESTIONS = Kind("questions about pictures", ("label", "image", "question"), question, pictures=True)
MASKS = Kind("pictures with the classes of their cells", ("image", "labels"), mask, pictures=True)
TAGGED = Kind("words with tags", ("words", "tags"), tagged)
