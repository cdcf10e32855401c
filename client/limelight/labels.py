"""Labels along the axes of a map: words, sentences, patches, output tokens.

A label set holds columns, one value for each entry, without an object for each token.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from limelight.base.enums import name_of
from limelight.records import SHORT, Record, as_array, json_types
from limelight.v1 import attention_pb2, values_pb2

Integers = NDArray[np.int32]

_SHOWN = 6  # labels that the representation of a set has
# Of an answer: its sets, and entries without texts, of which a message of 20 bytes can state 2^31.
_MOST_SETS, _MOST_UNNAMED = 2**12, 2**21


def _empty() -> Integers:
    return np.empty(0, np.int32)


@dataclass(frozen=True)
class Region(Record):
    """A part of the image as sent (with EXIF orientation applied), in pixels from its upper left corner."""

    left: float
    top: float
    right: float
    """Right edge, exclusive."""
    bottom: float
    """Lower edge, exclusive."""

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right, bottom, as Pillow's `crop` and `rectangle` take them."""
        return self.left, self.top, self.right, self.bottom


@dataclass(frozen=True)
class Grid(Record):
    """Cells laid over an image, row by row, after any leading entries."""

    rows: int
    columns: int
    leading: tuple[str, ...] = ()
    """Names of entries before the cells, such as a class token."""
    region: Region | None = None
    """The part of the image that the cells cover, which may exceed the image; None if no image was sent."""

    def cell(self, row: int, column: int) -> Region:
        """Return the rectangle of a cell, in pixels of the image as sent.

        Raises:
            IndexError: there is no such cell.
            ValueError: no image was sent.
        """
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            raise IndexError(f"cell {row}, {column} of a grid of {self.rows} x {self.columns}")
        if self.region is None:
            raise ValueError("the cells of this grid have no position: no image was sent")
        wide = (self.region.right - self.region.left) / self.columns
        high = (self.region.bottom - self.region.top) / self.rows
        left, top = self.region.left + column * wide, self.region.top + row * high
        return Region(left, top, left + wide, top + high)


@dataclass(frozen=True, eq=False, repr=False)
class LabelSet(Record):
    """Labels of the entries along an axis.

    `labels` has a string for each entry of any kind. A column that does not apply to the kind is empty.
    `numpy.asarray(label_set)` returns the labels.
    """

    name: str
    kind: str
    """"tokens", "sentences", "grid", "nodes", "output_steps", "input_steps", "hops", "classes", "groups", "ranges",
    "one"…"""
    labels: tuple[str, ...]
    """[entry]: for a token its piece of the text, for a special token its name in the vocabulary."""
    starts: Integers = field(default_factory=_empty)
    """[entry]: where each begins in the text as sent, in Unicode code points (Python's own indices); in a document sent
    as sentences, in its own sentence. For ranges: the first entry of the set `parent`. For frames of a recording: the
    time in milliseconds."""
    ends: Integers = field(default_factory=_empty)
    """[entry]: end, exclusive."""
    ids: Integers = field(default_factory=_empty)
    """[entry]: id in the vocabulary."""
    parents: Integers = field(default_factory=_empty)
    """[entry]: index in the set `parent`, such as the sentence of a word."""
    parent: str = ""
    """Name of the set that `parents` indexes, or that was grouped or pooled; empty for none."""
    flags: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """[entry]: as `special`, but empty if no entry is special."""
    inputs: tuple[str, ...] = ()
    """Names of the inputs of the entries: "text", or for a pair "text.first" and "text.second"."""
    input_indices: Integers = field(default_factory=_empty)
    """[entry]: index in `inputs`; empty if all entries belong to the first."""
    words: Integers = field(default_factory=_empty)
    """[entry]: number of the word of each token; -1 for a special token. Empty if the model does not state words."""
    grid: Grid | None = None
    """The grid of the entries."""
    indices: tuple[int, ...] | None = None
    """Indices of the entries in the whole set; None for all."""

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        shown = [SHORT.repr(label) for label in self.labels[:_SHOWN]]
        if len(self) > _SHOWN:
            shown[-1:] = ["…", SHORT.repr(self.labels[-1])]
        return f"<LabelSet {SHORT.repr(self.name)}, {self.kind}, {len(self)}: {' '.join(shown)}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the columns as lists; a column that does not apply is None."""
        return {
            "name": self.name,
            "kind": self.kind,
            "labels": list(self.labels),
            "offsets": json_types(self.offsets) or None,
            "ids": self.ids.tolist() or None,
            "special": self.special.tolist(),
            "parents": self.parents.tolist() or None,
            "parent": self.parent or None,
            "inputs": list(self.origins) or None,
            "words": self.words.tolist() or None,
            "grid": json_types(self.grid),
        }

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return as_array(np.array(self.labels, str), dtype, copy)

    @cached_property
    def special(self) -> NDArray[np.bool_]:
        """[entry]: True if the entry is not a part of the input: a special token, or a grid's leading entry."""
        if len(self.flags) or self.grid is None:
            return self.flags if len(self.flags) else np.zeros(len(self), np.bool_)
        return np.asarray(self.numbers < len(self.grid.leading))

    @property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each entry; empty if the entries are not parts of a text."""
        return tuple(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    @property
    def origins(self) -> tuple[str, ...]:
        """Input of each entry; empty if no input determines the entries."""
        if not len(self.input_indices):
            return self.inputs[:1] * len(self)
        return tuple(self.inputs[index] for index in self.input_indices.tolist())

    def region(self, index: int) -> Region | None:
        """Return the rectangle of an entry, in pixels of the image as sent; None if it has none.

        Raises:
            IndexError: there is no such entry.
        """
        number = int(self.numbers[index])
        if self.grid is None or self.grid.region is None or number < len(self.grid.leading):
            return None
        return self.grid.cell(*divmod(number - len(self.grid.leading), self.grid.columns))

    def joined(self, begin: int, end: int) -> str:
        """Return the text of adjacent entries. Pieces overlap where a tokenizer divides or marks a character."""
        if not len(self.starts):
            return "".join(self.labels[begin:end])
        pieces, reached = [], 0
        for text, (start, stop) in zip(self.labels[begin:end], self.offsets[begin:end], strict=True):
            pieces.append(text[max(0, reached - start) :] if len(text) == stop - start else text)
            reached = max(reached, stop)
        return "".join(pieces)

    def take(self, indices: Iterable[int]) -> "LabelSet":
        """Select entries, in this order. `indices` of the result refer to the whole set."""
        places = np.fromiter(indices, np.int64)
        columns: dict[str, Any] = {name: getattr(self, name) for name in _COLUMNS}
        return replace(
            self,
            labels=tuple(self.labels[place] for place in places.tolist()),
            indices=tuple(self.numbers[places].tolist()),
            **{name: column[places] if len(column) else column for name, column in columns.items()},
        )

    def without_special(self) -> "LabelSet":
        """Return a set of its own without special entries; a grid loses its leading ones."""
        kept = self.take(np.flatnonzero(~self.special))
        grid = None if self.grid is None else replace(self.grid, leading=())
        return replace(kept, indices=None, grid=grid)

    def extended(self, others: "LabelSet") -> "LabelSet":
        """Append the entries of another set. Columns that one of the sets lacks are dropped."""
        columns: dict[str, Any] = {name: _EMPTY[name] for name in _COLUMNS}
        for name in _COLUMNS:
            mine, more = getattr(self, name), getattr(others, name)
            if len(mine) == len(self) and len(more) == len(others):
                columns[name] = np.concatenate([mine, more])
        special = np.concatenate([self.special, others.special])
        return replace(self, labels=self.labels + others.labels, **{**columns, "flags": special})

    @property
    def numbers(self) -> NDArray[np.int64]:
        """[entry]: index of each entry in the whole set."""
        return np.arange(len(self)) if self.indices is None else np.array(self.indices, np.int64)


_COLUMNS = ("starts", "ends", "ids", "parents", "flags", "input_indices", "words")
_EMPTY = {name: _empty() for name in _COLUMNS}


def plain(
    name: str, kind: str, labels: Sequence[str], *, ids: Sequence[int] = (), special: Sequence[bool] = ()
) -> LabelSet:
    """Build a label set from names, and from columns of tokens."""
    return LabelSet(name, kind, tuple(labels), ids=np.array(ids, np.int64), flags=np.array(special, np.bool_))


def read_label_sets(
    messages: Iterable[attention_pb2.LabelSet],
    instance: values_pb2.Instance | None = None,
    shared: Mapping[str, LabelSet] | None = None,
) -> dict[str, LabelSet]:
    """Read label sets by name from a response.

    Args:
        instance: the sent instance, which has the texts of sentences; responses do not repeat them.
        shared: label sets read earlier that may be parents of these.
    Raises:
        ValueError: columns of a set differ in length, or entries are no parts of what contains them.
    """
    messages = list(messages)
    if len(messages) > _MOST_SETS:
        raise ValueError(f"{len(messages)} label sets")
    check_sizes(messages)
    found = {message.name: _read(message) for message in messages}
    known = {**(shared or {}), **found}
    children: dict[str, list[LabelSet]] = {}
    for labels in known.values():
        children.setdefault(labels.parent, []).append(labels)
    named = {message.name for message in messages if message.texts}
    for name, labels in found.items():
        if labels.kind == "sentences" and name not in named:
            source = _source(instance, labels.inputs)
            texts = _sentence_texts(labels, source, children.get(name, ()))
            found[name] = known[name] = replace(labels, labels=texts)
    for name, labels in found.items():
        if labels.kind == "ranges" and len(labels.starts) and labels.parent in known:
            found[name] = replace(labels, labels=_range_texts(labels, known[labels.parent]))
    return found


def read_label_set(message: attention_pb2.LabelSet) -> LabelSet:
    """Read one label set without a parent. Raises ValueError if its columns differ in length."""
    check_sizes([message])
    return _read(message)


def check_sizes(messages: Iterable[attention_pb2.LabelSet]) -> None:
    """Check how many entries the sets of an answer have, before a label is made of each. Raises ValueError."""
    unnamed = sum(max(0, each.size) for each in messages if not each.texts)
    if unnamed > _MOST_UNNAMED:
        raise ValueError(f"label sets have {unnamed} entries without texts; at most {_MOST_UNNAMED} are read")


def _read(message: attention_pb2.LabelSet) -> LabelSet:
    kind, size = name_of(attention_pb2.LabelKind, message.kind), message.size
    grid = _grid(message.grid, size) if message.HasField("grid") else None
    labels = LabelSet(
        name=message.name,
        kind=kind,
        labels=tuple(message.texts) or _numbered_labels(message.name, kind, size, grid),
        starts=np.array(message.starts, np.int32),
        ends=np.array(message.ends, np.int32),
        ids=np.array(message.ids, np.int32),
        parents=np.array(message.parents, np.int32),
        parent=message.parent,
        flags=np.array(message.special, np.bool_),
        inputs=tuple(message.inputs),
        input_indices=np.array(message.input_indices, np.int32),
        words=np.array(message.words, np.int32),
        grid=grid,
    )
    check_columns(labels, size)
    return labels


def check_columns(labels: LabelSet, size: int) -> None:
    """Check that columns have the set's size, and make them read-only. Raises ValueError."""
    what = f"label set {labels.name!r}"
    if len(labels) != size:
        raise ValueError(f"{what} has size {size} but {len(labels)} entries")
    for name in _COLUMNS:
        column = getattr(labels, name)
        if len(column) not in (0, size):
            raise ValueError(f"{what} has {size} entries and {len(column)} {name}")
        column.flags.writeable = False
    if len(labels.starts) != len(labels.ends):
        raise ValueError(f"{what} has starts without ends, or ends without starts")
    if not ((labels.input_indices >= 0) & (labels.input_indices < len(labels.inputs))).all():
        raise ValueError(f"{what} has entries of an input that it does not name")


def _grid(message: attention_pb2.Grid, size: int) -> Grid:
    """Read the grid of a set of a size. Raises ValueError where it has other entries."""
    if min(message.rows, message.columns) < 0 or message.rows * message.columns + len(message.leading) != size:
        cells = f"{message.rows} x {message.columns} cells after {len(message.leading)} entries"
        raise ValueError(f"a grid of {cells}, in a label set of size {size}")
    region = None
    if message.HasField("region"):
        region = Region(message.region.left, message.region.top, message.region.right, message.region.bottom)
        if not all(map(math.isfinite, region.box)):
            raise ValueError(f"a grid lies on the part {region.box} of the image")
    return Grid(message.rows, message.columns, tuple(message.leading), region)


def _numbered_labels(name: str, kind: str, size: int, grid: Grid | None) -> tuple[str, ...]:
    """Return numbered labels for entries without names."""
    if grid is not None:
        cells = (f"r{row}c{column}" for row in range(grid.rows) for column in range(grid.columns))
        return (*grid.leading, *cells)
    if size == 1:
        return (name,)
    # What a graph, or another input, has nodes for, its own name says.
    noun = (name if kind == "nodes" else kind).removesuffix("s").replace("_", " ")
    return tuple(f"{noun} {index}" for index in range(size))


def _source(instance: values_pb2.Instance | None, inputs: Sequence[str]) -> str | Sequence[str] | None:
    """Return the text of an input, or its sentences; without its name the only text, None for no text or several."""
    texts: list[str | Sequence[str]] = []
    values: Mapping[str, values_pb2.Value] = instance.inputs if instance is not None else {}
    for name, value in values.items():
        if name not in (inputs or values):
            continue
        kind = value.WhichOneof("kind")
        if kind == "text":
            texts.append(value.text)
        elif kind == "document":
            document = value.document
            texts.append(document.text if document.HasField("text") else list(document.sentences.texts))
    return texts[0] if len(texts) == 1 else None


def _sentence_texts(
    labels: LabelSet, source: str | Sequence[str] | None, children: Sequence[LabelSet]
) -> tuple[str, ...]:
    if isinstance(source, str) and len(labels.starts):
        _check_parts(labels, len(source))
        texts = [source[start:end] for start, end in labels.offsets]
    elif source is not None and not isinstance(source, str) and len(source) >= len(labels):
        # A truncated document has the first sentences of those sent.
        texts = list(source[: len(labels)])
    else:
        words: list[list[str]] = [[] for _ in labels.labels]
        for child in children:
            for place in np.flatnonzero(~child.special) if len(child.parents) else ():
                if 0 <= (index := int(child.parents[place])) < len(words):
                    words[index].append(child.labels[place])
        texts = list(map(" ".join, words))
    return tuple(text or f"sentence {index}" for index, text in enumerate(texts))


def _check_parts(labels: LabelSet, size: int) -> None:
    """Check that entries are parts of a whole of a size, each after the one before. Raises ValueError."""
    ends = np.stack([labels.starts, labels.ends], axis=1).reshape(-1)
    if ends.size and (ends[0] < 0 or ends[-1] > size or (ends[1:] < ends[:-1]).any()):
        raise ValueError(f"the entries of label set {labels.name!r} are no parts, in order, of {size}")


def _range_texts(labels: LabelSet, parent: LabelSet) -> tuple[str, ...]:
    """Label each range by its first and last entry."""
    _check_parts(labels, len(parent))
    return tuple(
        f"{parent.labels[start]} … {parent.labels[end - 1]}" if end - start > 1 else "".join(parent.labels[start:end])
        for start, end in labels.offsets
    )
