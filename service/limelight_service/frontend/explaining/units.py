"""Units: the parts of an input that an explanation tells of, joined from entries of label sets."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil

import numpy as np
import numpy.typing as npt

from limelight.base.counts import counted
from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import InputError, Path, TooLargeError
from limelight_bundle.rows import Labels, Row
from limelight_bundle.splitting import split_lines, split_sentences
from limelight_bundle.values import Instance, Pair, Sentences, Text
from limelight_service.attention.members import members
from limelight_service.attention.options import Group
from limelight_service.frontend.explaining.asked import MOST_UNITS, AskedUnits, UnitKind
from limelight_service.frontend.schema import ModelSchema

Indices = npt.NDArray[np.intp]
Members = Mapping[str, Indices]
"""Entries by the name of their label set, ascending."""

UNITS = "units"  # name of the label set
_FEW = 64  # units that patches and parts of recordings are at most, where nobody states their size
_CELLS = (attention_pb2.LABEL_KIND_GRID, attention_pb2.LABEL_KIND_FRAMES)
# Scripts without spaces between words: each of their characters is a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u312f\u31a0-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese and Japanese
)
_WORD = re.compile(rf"[{_UNSPACED}][^\w\s]*|[^\s{_UNSPACED}]+")
_TEXTS: Mapping[UnitKind, Callable[[str], Iterator[tuple[int, int]]]] = {
    UnitKind.WORDS: lambda text: (match.span() for match in _WORD.finditer(text)),
    UnitKind.SENTENCES: split_sentences,
    UnitKind.LINES: split_lines,
}
_KINDS: Mapping[int, tuple[UnitKind, ...]] = {
    attention_pb2.LABEL_KIND_TOKENS: (UnitKind.WORDS, UnitKind.SENTENCES, UnitKind.LINES, UnitKind.TOKENS),
    attention_pb2.LABEL_KIND_GRID: (UnitKind.PATCHES,),
    attention_pb2.LABEL_KIND_NODES: (UnitKind.NODES,),
    attention_pb2.LABEL_KIND_FRAMES: (UnitKind.FRAMES,),
}


@dataclass(frozen=True)
class Units:
    """The units of an instance. labels: of them. entries: that each is made of. related: adds the entries of other
    label sets that stand for the same part of the input.
    """

    labels: Labels
    entries: Sequence[Members]
    related: Callable[[Members], Members]

    @cached_property
    def members(self) -> Sequence[Members]:
        """The entries of each unit, in every label set."""
        return [self.related(each) for each in self.entries]

    @cached_property
    def label_sets(self) -> frozenset[str]:
        """Names of the label sets of which some unit has entries."""
        return frozenset(name for each in self.members for name, entries in each.items() if len(entries))

    def others(self, place: int) -> Members:
        """Give the entries of all units but one, without those of that one: of all together, a sentence whose words are
        several units as well.
        """
        found = {}
        for name in dict.fromkeys(name for each in self.entries for name in each):
            every = np.concatenate([each[name] for each in self.entries if name in each])
            found[name] = np.setdiff1d(every, self.entries[place].get(name, np.empty(0, np.intp)))
        return self.related(found)


@dataclass(frozen=True)
class _Unit:
    """One unit. source: the input, or the part of a pair. entries: of the label sets that it is made of."""

    source: str
    entries: Members
    text: str = ""
    start: int = 0
    end: int = 0
    sentence: int | None = None


@dataclass(frozen=True)
class _Source:
    """A label set that units are made of, with its description."""

    labels: Labels
    description: model_pb2.LabelSetDescription


class UnitFinder:
    """Finds the units of instances of one model, as a request asks for them."""

    def __init__(self, schema: ModelSchema, asked: AskedUnits) -> None:
        """Check what needs no instance. Raises: InputError."""
        self._schema = schema
        self._asked = asked
        described = schema.description
        given = {each.name for each in described.inputs} - {schema.target_input}
        every = (*schema.prompts, *described.label_sets)
        sets = [each for each in every if each.input in given and each.kind in _KINDS]
        self._sets = {each.name: each for each in sets}
        if asked.size < 0:
            raise InputError(("units", "size"), f"is {asked.size}; it may be 0 or more")
        if asked.groups and asked.kind is not UnitKind.USUAL:
            raise InputError("units", "have kind and groups; set one")
        known = tuple(dict.fromkeys(kind for each in sets for kind in _KINDS[each.kind]))
        if asked.kind is not UnitKind.USUAL and asked.kind not in known:
            raise InputError(
                ("units", "kind"), f"is {asked.kind.value}, which no input of the model has; it has {_named(known)}"
            )
        if asked.size and not {UnitKind.PATCHES, UnitKind.FRAMES}.intersection(known):
            raise InputError(("units", "size"), "is of patches and frames, which no input of the model has")
        if asked.label_set and asked.label_set not in self._sets:
            there = ", ".join(self._sets) or "none"
            raise InputError(("units", "label_set"), f"is {asked.label_set!r}; units are of {there}")

    def find(self, row: Row, instance: Instance) -> Units:
        """Find the units of an instance. Raises: InputError for units that it has not; TooLargeError for too many."""
        row = replace(row, labels={**self._schema.prompt_labels(row), **row.labels})
        sources = [_Source(row.labels[name], each) for name, each in self._sets.items() if name in row.labels]
        if self._asked.groups:
            found = [
                self._group(group, sources, row, ("units", "groups", place))
                for place, group in enumerate(self._asked.groups)
            ]
        else:
            tensors = dict[str, _Source]()  # of several sets that count one tensor, the first
            for each in sources:
                tensors.setdefault(each.description.tensor or each.labels.name, each)
            found = [unit for each in tensors.values() for unit in self._of(each, row, instance)]
        found = self._of_inputs(found, [name for each in sources for name in each.labels.inputs])
        if not found:
            raise InputError("units", "are none; the instance has nothing that they could be made of")
        if len(found) > MOST_UNITS:
            raise too_many(len(found), MOST_UNITS, f"there may be {MOST_UNITS}")
        labels = _labels(found, self._asked, sources)
        return Units(labels, [each.entries for each in found], partial(self._related, row))

    def _of(self, source: _Source, row: Row, instance: Instance) -> Iterator[_Unit]:
        """Make the units of one label set, where it has such."""
        kinds, kind = _KINDS[source.labels.kind], self._asked.kind
        kind = kinds[0] if kind is UnitKind.USUAL else kind
        if kind not in kinds:
            return
        labels, size = source.labels, self._asked.size
        if kind is UnitKind.TOKENS:
            yield from _each_token(labels)
        elif kind in _TEXTS:
            yield from _parts_of_texts(labels, row.labels.get(labels.parent), instance, source.description.input, kind)
        elif kind is UnitKind.PATCHES:
            yield from _patches(labels, size)
        elif kind is UnitKind.FRAMES:
            yield from _parts_of_recording(labels, size)
        else:
            names = labels.texts or [str(node) for node in range(labels.size)]
            for node in range(labels.size):
                yield _Unit(_source_of(labels, node), {labels.name: np.array([node])}, names[node])

    def _of_inputs(self, found: Sequence[_Unit], sources: Sequence[str]) -> list[_Unit]:
        """Keep the units of the inputs that are asked for."""
        wanted = self._asked.inputs
        for place, name in enumerate(wanted):
            if not any(_is_of(each, name) for each in sources):
                there = ", ".join(dict.fromkeys(sources)) or "no input"
                raise InputError(("units", "inputs", place), f"is {name!r}; units come from {there}")
        return [unit for unit in found if not wanted or any(_is_of(unit.source, name) for name in wanted)]

    def _group(self, group: Group, sources: Sequence[_Source], row: Row, field: Path) -> _Unit:
        """Find the entries of a given unit."""
        entries: dict[str, Indices] = {}
        if group.indices or group.ranges:
            name = self._asked.label_set or (sources[0].labels.name if len(sources) == 1 else "")
            if not name:
                there = ", ".join(each.labels.name for each in sources)
                raise InputError(("units", "label_set"), f"is missing; indices and ranges may be of {there}")
            entries[name] = members(Group("", group.indices, group.ranges), name, row.labels, field)
        for kind, named in (("spans", group.spans), ("inputs", group.inputs)):
            for place, each in enumerate(named):
                one = Group("", spans=(each,)) if kind == "spans" else Group("", inputs=(each,))  # type: ignore[arg-type]
                for name, found in _anywhere(one, sources, row, (*field, kind), place).items():
                    entries[name] = np.union1d(entries.get(name, found), found)
        if not entries:
            raise InputError(field, "names no entry; set one of indices, ranges, spans, inputs")
        name, found = next(iter(entries.items()))
        labels, first, last = row.labels[name], int(found[0]), int(found[-1])
        span = group.spans[0] if group.spans else None
        has_places = len(labels.starts) > 0
        return _Unit(
            _source_of(labels, first),
            entries,
            group.name,
            span.start if span is not None else labels.starts[first] if has_places else 0,
            span.end if span is not None else labels.ends[last] if has_places else 0,
            span.sentence if span is not None else None,
        )

    def _related(self, row: Row, entries: Members) -> Members:
        """Add the entries of other label sets that stand for the same part of the input."""
        found = dict(entries)
        for name, own in entries.items():
            described, labels = self._sets[name], row.labels[name]
            for other in self._schema.description.label_sets:
                if other.name in found or other.input != described.input:
                    continue
                if other.kind == attention_pb2.LABEL_KIND_INPUT_STEPS and other.tensor == described.tensor:
                    found[other.name] = own + self._schema.leading
                elif other.name == labels.parent:
                    found[other.name] = _covered(own, labels, row.labels[other.name].size)
                elif other.name in row.labels and other.kind == described.kind:
                    if other.kind in _CELLS:
                        found[other.name] = _same_place(own, labels, row.labels[other.name])
                    elif (other.tensor, other.dimension) == (described.tensor, described.dimension):
                        found[other.name] = own
        return found


def too_many(units: int, fitting: int, why: str, instances: int = 1) -> TooLargeError:
    """Make the error of more units than fit."""
    fits = f"{counted(fitting, 'unit')} of each instance fit" if instances > 1 else f"{counted(fitting, 'unit')} fit"
    advice = "choose larger ones (units.kind UNIT_KIND_SENTENCES, a larger units.size), or name fewer inputs or ways"
    return TooLargeError("units", f"are {units}; {why}: {fits}; {advice}")


def split_units(kind: UnitKind, text: str) -> Iterator[tuple[int, int]]:
    """Yield the words, sentences or lines of a text: (start, end) in code points."""
    return _TEXTS[kind](text)


def _parts_of_texts(
    labels: Labels, parent: Labels | None, instance: Instance, name: str, kind: UnitKind
) -> Iterator[_Unit]:
    """Split the texts of a set of tokens, and give the parts that have tokens."""
    value = instance.get(name)
    if kind is UnitKind.SENTENCES and parent is not None and len(labels.parents):
        yield from _parents(labels, parent, value)
        return
    if not isinstance(value, Text | Pair | Sentences) or not len(labels.starts):
        if kind is not UnitKind.WORDS:
            raise InputError(("units", "kind"), f"is {kind.value}, which tensors do not tell; send {name!r} as it is")
        yield from _each_token(labels)
        return
    starts, ends = np.asarray(labels.starts), np.asarray(labels.ends)
    own = _ordinary(labels)
    for source, sentence, text, entries in _texts(labels, value, own):
        first, last = starts[entries], ends[entries]
        parts: list[tuple[int, int, int, int]] = []  # first token and end, start and end in the text
        for start, end in split_units(kind, text):
            begin, until = int(np.searchsorted(last, start, "right")), int(np.searchsorted(first, end, "left"))
            if parts and begin < parts[-1][1]:  # a token that is of both, as in scripts without spaces, joins them
                begin, _, start, _ = parts.pop()
            if begin < until:
                parts.append((begin, until, start, end))
        for begin, until, start, end in parts:
            yield _Unit(source, {labels.name: entries[begin:until]}, text[start:end], start, end, sentence)


def _texts(
    labels: Labels, value: Text | Pair | Sentences, own: npt.NDArray[np.bool_]
) -> Iterator[tuple[str, int | None, str, Indices]]:
    """Give each text of a value, with its source, its sentence, and the places of its tokens, in order."""
    places = np.flatnonzero(own & (np.asarray(labels.ends) > np.asarray(labels.starts)))
    match value:
        case Text(text):
            yield labels.inputs[0], None, text, places
        case Sentences(texts):
            parents = np.asarray(labels.parents)[places] if len(labels.parents) else np.zeros(len(places), np.intp)
            for number, text in enumerate(texts):
                yield labels.inputs[0], number, text, places[parents == number]
        case Pair(first, second):
            of = np.asarray(labels.input_indices)[places] if len(labels.input_indices) else np.zeros(len(places))
            for number, source in enumerate(labels.inputs):
                yield source, None, second if source.endswith(".second") else first, places[of == number]


def _parents(labels: Labels, parent: Labels, value: object) -> Iterator[_Unit]:
    """Give the sentences of a document, as the model reads them."""
    parents, own = np.asarray(labels.parents), _ordinary(labels)
    for number in range(parent.size):
        start, end = (parent.starts[number], parent.ends[number]) if len(parent.starts) else (0, 0)
        match value:
            case Text(text):
                sentence, shown = None, text[start:end]
            case Sentences(texts):
                sentence, shown = number, texts[number]
            case _:
                sentence, shown = None, ""
        inside = np.flatnonzero(own & (parents == number))
        if len(inside):
            yield _Unit(labels.inputs[0], {labels.name: inside}, shown, start, end, sentence)


def _each_token(labels: Labels) -> Iterator[_Unit]:
    """Give every token that is not special."""
    texts, parents = labels.texts, labels.parents
    for place in np.flatnonzero(_ordinary(labels)).tolist():
        start, end = (labels.starts[place], labels.ends[place]) if len(labels.starts) else (0, 0)
        is_own = len(parents) > 0 and len(labels.starts) > 0
        yield _Unit(
            _source_of(labels, place),
            {labels.name: np.array([place])},
            texts[place] if len(texts) else str(place),
            start,
            end,
            parents[place] if is_own else None,
        )


def _patches(labels: Labels, size: int) -> Iterator[_Unit]:
    """Give squares of cells, row by row."""
    assert labels.grid is not None
    grid = labels.grid
    size = _patch_size(grid, size)
    cells = np.arange(grid.rows * grid.columns).reshape(grid.rows, grid.columns) + len(grid.leading)
    for top in range(0, grid.rows, size):
        for left in range(0, grid.columns, size):
            inside = cells[top : top + size, left : left + size].ravel()
            text = f"row {top // size}, column {left // size}"
            yield _Unit(_source_of(labels, 0), {labels.name: inside}, text)


def _patch_size(grid: attention_pb2.Grid, size: int) -> int:
    """Give the cells along a side of a patch."""
    if size:
        return min(size, max(grid.rows, grid.columns))
    return next(k for k in range(1, grid.rows + grid.columns) if ceil(grid.rows / k) * ceil(grid.columns / k) <= _FEW)


def _parts_of_recording(labels: Labels, size: int) -> Iterator[_Unit]:
    """Give parts of consecutive frames, as far as the recording goes."""
    frames = np.flatnonzero(_ordinary(labels))
    size = size or max(1, ceil(len(frames) / _FEW))
    for first in range(0, len(frames), size):
        inside = frames[first : first + size]
        start, end = labels.starts[int(inside[0])], labels.ends[int(inside[-1])]
        yield _Unit(_source_of(labels, 0), {labels.name: inside}, labels.texts[int(inside[0])], start, end)


def _anywhere(group: Group, sources: Sequence[_Source], row: Row, field: Path, place: int) -> Members:
    """Find what a span or an input names, in whatever label set it is. Raises: InputError where it is in none."""
    found: dict[str, Indices] = {}
    failed: InputError | None = None
    for each in sources:
        try:
            found[each.labels.name] = members(group, each.labels.name, row.labels, field[:-1])
        except InputError as error:
            failed = failed or error
    if not found:
        assert failed is not None
        behind = failed.path[len(field) + 1 :]
        raise type(failed)((*field, place, *behind), failed.message)
    return found


def _labels(found: Sequence[_Unit], asked: AskedUnits, sources: Sequence[_Source]) -> Labels:
    """Label units: patches of one grid as a grid, others by their texts and places."""
    inputs = tuple(dict.fromkeys(each.source for each in found))
    names = {name for each in found for name in each.entries}
    single = next((each.labels for each in sources if names == {each.labels.name}), None)
    if single is not None and single.grid is not None and not asked.groups:
        return Labels(UNITS, single.kind, len(found), grid=_coarser(single.grid, asked.size), inputs=inputs)
    kind = attention_pb2.LABEL_KIND_GROUPS if single is None or asked.groups else single.kind
    if kind == attention_pb2.LABEL_KIND_TOKENS and asked.kind in (UnitKind.SENTENCES, UnitKind.LINES):
        kind = attention_pb2.LABEL_KIND_SENTENCES
    sentences = [each.sentence for each in found]
    in_sentences = any(each is not None for each in sentences)
    placed = any(each.end for each in found)
    parent = next((each.labels.parent for each in sources if each.labels.parent), "")
    return Labels(
        UNITS,
        kind,
        len(found),
        [each.text for each in found],
        [each.start for each in found] if placed else (),
        [each.end for each in found] if placed else (),
        parents=[each or 0 for each in sentences] if in_sentences else (),
        parent=parent if in_sentences else "",
        inputs=inputs,
        input_indices=[inputs.index(each.source) for each in found] if len(inputs) > 1 else (),
    )


def _coarser(grid: attention_pb2.Grid, size: int) -> attention_pb2.Grid:
    """Describe the grid of patches: it reaches beyond the image where they do."""
    size = _patch_size(grid, size)
    found = attention_pb2.Grid(rows=ceil(grid.rows / size), columns=ceil(grid.columns / size))
    if grid.HasField("region"):
        found.region.CopyFrom(grid.region)
        width, height = grid.region.right - grid.region.left, grid.region.bottom - grid.region.top
        found.region.right = grid.region.left + width * found.columns * size / grid.columns
        found.region.bottom = grid.region.top + height * found.rows * size / grid.rows
    return found


def _covered(entries: Indices, labels: Labels, count: int) -> Indices:
    """Give the parents of which every entry is among some."""
    parents, own = np.asarray(labels.parents), _ordinary(labels)
    left = own.copy()
    left[entries] = False
    named = np.bincount(parents[entries], minlength=count) > 0
    return np.flatnonzero(named & (np.bincount(parents[left], minlength=count) == 0))


def _same_place(entries: Indices, labels: Labels, other: Labels) -> Indices:
    """Give the cells or frames of another set whose middle lies in some of one set."""
    if labels.grid is not None and other.grid is not None:
        marked = np.zeros(labels.size, bool)
        marked[entries] = True
        cells = marked[len(labels.grid.leading) :].reshape(labels.grid.rows, labels.grid.columns)
        rows = (np.arange(other.grid.rows) + 0.5) / other.grid.rows * labels.grid.rows
        columns = (np.arange(other.grid.columns) + 0.5) / other.grid.columns * labels.grid.columns
        inside = cells[np.ix_(rows.astype(np.intp), columns.astype(np.intp))]
        return np.flatnonzero(inside.ravel()) + len(other.grid.leading)
    middles = (np.asarray(other.starts) + np.asarray(other.ends)) / 2
    at = np.searchsorted(np.asarray(labels.starts), middles, "right") - 1
    return np.flatnonzero(np.isin(at, entries))


def _ordinary(labels: Labels) -> npt.NDArray[np.bool_]:
    """True for every entry that is not special."""
    special = np.zeros(labels.size, bool)
    special[: len(labels.special)] = labels.special
    return ~special


def _source_of(labels: Labels, entry: int) -> str:
    if not labels.inputs:
        return ""
    return labels.inputs[labels.input_indices[entry] if len(labels.input_indices) else 0]


def _is_of(source: str, name: str) -> bool:
    return source == name or source.startswith(f"{name}.")


def _named(kinds: Sequence[UnitKind]) -> str:
    return ", ".join(each.value for each in kinds) or "none"
